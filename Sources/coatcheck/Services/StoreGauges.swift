import Broker
import BrokerStore
import Dispatch
import Foundation
import Synchronization

/// Samples values that are too expensive for every scrape: the number of live sessions, and the disk space of their store.
final class StoreGauges: Sendable {
    static let interval = Duration.seconds(30)

    private let store: any StoreAdministration
    /// The database file; nil for a store without one.
    private let path: String?
    private let metrics: MetricsRegistry
    private let now: @Sendable () -> WallTime
    /// Whether a query of the disk is running.
    ///
    /// Meanwhile, further queries are skipped, because the disk may hang.
    private let isAsking = Atomic<Bool>(false)

    init(
        _ store: any StoreAdministration, _ settings: StoreSettings, _ metrics: MetricsRegistry,
        now: @escaping @Sendable () -> WallTime
    ) {
        self.store = store
        self.metrics = metrics
        self.now = now
        if case .sqlite(let path, _) = settings { self.path = path } else { path = nil }
    }

    /// Samples the values once.
    ///
    /// If a value cannot be read, its gauge keeps the last value.
    func sample() async {
        if let live = try? await store.liveSessions(now: now()) {
            metrics.gauge("coatcheck_sessions_live").set(Int64(live))
        }
        askDisk()
    }

    /// Returns the service that samples the values at intervals.
    func service(_ clock: BrokerClock) -> RepeatedWork {
        RepeatedWork(clock: clock, delay: .milliseconds(100)) { [self] in
            await sample()
            return Self.interval
        }
    }

    /// Queries the disk on a thread of its own without waiting, because a network disk may be slow.
    private func askDisk() {
        guard let path, !isAsking.exchange(true, ordering: .acquiringAndReleasing) else { return }
        DispatchQueue.global(qos: .utility).async { [self] in
            measureDisk(path)
            isAsking.store(false, ordering: .releasing)
        }
    }

    private func measureDisk(_ path: String) {
        var status = statvfs()
        if statvfs(path, &status) == 0 {
            metrics.gauge("coatcheck_store_free_bytes").set(Double(status.f_bavail) * Double(status.f_frsize))
        }
        var bytes: Int64 = 0
        for file in [path, path + "-wal"] {
            var status = stat()
            if stat(file, &status) == 0 { bytes += Int64(status.st_size) }
        }
        metrics.gauge("coatcheck_store_bytes").set(bytes)
    }
}
