import Synchronization

/// How many calls to one upstream are under way, and the limit on them: a slow upstream fills its own places only.
final class UpstreamConcurrency: Sendable {
    private let taken = Atomic<Int>(0)
    private let limit: Int

    init(limit: Int) { self.limit = limit }

    /// Takes a place, or returns nil when there is none.
    ///
    /// It is free again when the last holder lets it go.
    func take() -> Place? {
        guard taken.wrappingAdd(1, ordering: .relaxed).newValue <= limit else {
            taken.wrappingSubtract(1, ordering: .relaxed)
            return nil
        }
        return Place(places: self)
    }

    /// How many are taken.
    var count: Int { taken.load(ordering: .relaxed) }

    final class Place: Sendable {
        private let places: UpstreamConcurrency
        fileprivate init(places: UpstreamConcurrency) { self.places = places }
        deinit { places.taken.wrappingSubtract(1, ordering: .relaxed) }
    }
}
