import Broker
import Synchronization

/// Measures the duration of store operations, traces them, counts failures, and detects a full disk.
///
/// Every call goes to `base` unchanged.
struct TimedStore: AroundStore {
    let base: any BrokerStore
    let metrics: MetricsRegistry
    let monotonic: @Sendable () -> Duration
    let disk: DiskState

    func around<Value: Sendable>(
        _ operation: StoreOperation, _ work: @escaping StoreWork<Value>
    ) async throws(StoreFailure) -> Value {
        let begin = monotonic()
        let span = RequestScope.current?.span?.child("store \(operation.rawValue)", .client)
        span?.set("db.operation.name", operation.rawValue)
        defer {
            metrics.histogram("coatcheck_store_duration_seconds", [("operation", operation.rawValue)])
                .recordNanoseconds((monotonic() - begin).nanoseconds)
        }
        do throws(StoreFailure) {
            let value = try await work(base)
            if operation.kind == .writing { disk.wasWritten() }
            span?.end(nil)
            return value
        } catch {
            span?.end("store_unavailable")
            if case .full = error { disk.wasFull() }
            count(error, of: operation)
            throw error
        }
    }

    /// Counts a failed operation of the store.
    ///
    /// Two failures are left out, because they are not faults of the store: a cancelled caller, and a row of a newer release.
    private func count(_ failure: StoreFailure, of operation: StoreOperation) {
        guard failure != .newerFormat, !Task.isCancelled else { return }
        metrics.counter("coatcheck_store_failures_total", [("operation", operation.rawValue)]).increment(by: 1)
    }
}

/// Whether the store's disk is full according to the last writes.
///
/// Log lines are written when the disk becomes full and when it has space again.
final class DiskState: Sendable {
    private let log: ProcessLog
    private let full = Atomic<Bool>(false)

    init(log: ProcessLog) { self.log = log }

    var isFull: Bool { full.load(ordering: .relaxed) }

    /// Notes that a write failed because the disk is full.
    func wasFull() {
        guard !full.exchange(true, ordering: .relaxed) else { return }
        log.write(
            .error, "the store's disk is full",
            [("detail", "sign-ins are refused; sessions are served and ended; make room")])
    }

    /// Notes that an operation of the kind `writing` succeeded, which proves that the disk has space.
    func wasWritten() {
        guard full.load(ordering: .relaxed), full.exchange(false, ordering: .relaxed) else { return }
        log.write(.notice, "the store's disk has room again")
    }
}
