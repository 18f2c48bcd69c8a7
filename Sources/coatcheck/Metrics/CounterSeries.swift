import Synchronization

/// A counter, which only increases.
final class CounterSeries: Sendable {
    private let count = Atomic<Int64>(0)

    var value: Int64 { count.load(ordering: .relaxed) }

    /// Raises the counter to the value of another counter, which never decreases.
    func advance(to value: Int64) { count.max(value, ordering: .relaxed) }

    func increment(by amount: Int64) { count.wrappingAdd(amount, ordering: .relaxed) }
}
