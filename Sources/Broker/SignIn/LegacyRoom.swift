import Synchronization

/// The number of questions to old systems that this process has in flight.
final class LegacyRoom: Sendable {
    /// The largest number of questions in flight.
    static let limit = 64

    private let inFlight = Mutex(0)

    /// Takes room for a question, if there is any; the caller then calls `leave`.
    func enter() -> Bool {
        inFlight.withLock { inFlight in
            guard inFlight < Self.limit else { return false }
            inFlight += 1
            return true
        }
    }

    func leave() { inFlight.withLock { $0 -= 1 } }
}
