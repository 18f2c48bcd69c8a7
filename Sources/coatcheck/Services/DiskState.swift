import Broker
import Synchronization

/// Whether the store's disk is full, as its last writes have found it; said once, and once when it is over.
final class DiskState: Sendable {
    private let log: ProcessLog
    private let full = Atomic<Bool>(false)

    init(log: ProcessLog) { self.log = log }

    var isFull: Bool { full.load(ordering: .relaxed) }

    /// Notes that a write met a full disk.
    func wasFull() {
        guard !full.exchange(true, ordering: .relaxed) else { return }
        log.write(
            .error, "the store's disk is full",
            [("detail", "sign-ins are refused; sessions are served and ended; make room")])
    }

    /// Notes that an ordinary write was taken.
    func wasWritten() {
        guard full.load(ordering: .relaxed), full.exchange(false, ordering: .relaxed) else { return }
        log.write(.notice, "the store's disk has room again")
    }
}
