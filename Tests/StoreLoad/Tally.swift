import Synchronization

/// A counter that many tasks increase.
final class Tally: Sendable {
    private let count = Atomic<Int>(0)

    /// Adds a number, and returns the new count.
    @discardableResult
    func add(_ number: Int) -> Int { count.add(number, ordering: .relaxed).newValue }

    /// The present count.
    var value: Int { count.load(ordering: .relaxed) }
}
