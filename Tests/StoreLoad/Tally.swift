import Synchronization

/// A count that many tasks add to.
final class Tally: Sendable {
    private let count = Atomic<Int>(0)

    /// Adds to it, and returns what it is then.
    @discardableResult
    func add(_ number: Int) -> Int { count.add(number, ordering: .relaxed).newValue }

    /// The present count.
    var value: Int { count.load(ordering: .relaxed) }
}
