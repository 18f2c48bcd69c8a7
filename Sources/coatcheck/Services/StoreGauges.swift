import Broker
import BrokerStore
import Dispatch
import Foundation
import Synchronization

/// Samples what would be too dear to measure at every scrape: how many sessions live, and the room that their store has.
final class StoreGauges: Sendable {
    static let interval = Duration.seconds(30)

    private let store: any StoreAdministration
    /// The database file; nil where the store is elsewhere.
    private let path: String?
    private let metrics: MetricsRegistry
    private let now: @Sendable () -> WallTime
    /// Whether the disk is being asked: one that hangs is not asked again.
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

    /// Samples once; what cannot be read now keeps its last value.
    func sample() async {
        if let live = try? await store.liveSessions(now: now()) {
            metrics.gauge("coatcheck_sessions_live").set(Int64(live))
        }
        askDisk()
    }

    /// The work of sampling.
    func service(_ clock: BrokerClock) -> RepeatedWork {
        RepeatedWork(clock: clock, delay: .milliseconds(100)) { [self] in
            await sample()
            return Self.interval
        }
    }

    /// Asks the disk on a thread of its own, and waits for nothing: a network's disk may take its time.
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
