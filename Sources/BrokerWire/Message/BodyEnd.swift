import Synchronization

/// Whether a request's body was read to its end.
final class BodyEnd: Sendable {
    private let reached = Atomic<Bool>(false)

    var isReached: Bool { reached.load(ordering: .relaxed) }

    func reach() { reached.store(true, ordering: .relaxed) }
}
