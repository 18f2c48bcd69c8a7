import Broker
import Synchronization

/// Measures how long a store takes, by operation, traces it, counts what fails, and sees when its disk is full.
///
/// Every call is handed on unchanged.
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

    /// Counts what the store did not do.
    ///
    /// A caller that gave up says nothing of the store, and a row that a newer release wrote was found and left alone.
    private func count(_ failure: StoreFailure, of operation: StoreOperation) {
        guard failure != .newerFormat, !Task.isCancelled else { return }
        metrics.counter("coatcheck_store_failures_total", [("operation", operation.rawValue)]).increment(by: 1)
    }
}

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
