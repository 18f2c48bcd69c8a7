import Synchronization

/// The part of the traces that is recorded; a reload changes it.
final class SampledShare: Sendable {
    private let bits: Atomic<UInt64>

    init(_ value: Double) { bits = Atomic(value.bitPattern) }

    /// From 0 to 1.
    var value: Double { Double(bitPattern: bits.load(ordering: .relaxed)) }

    func adopt(_ value: Double) { bits.store(value.bitPattern, ordering: .relaxed) }
}
