import Broker
import BrokerStore
import BrokerTestSupport
import Testing

/// An engine that the conformance suite tests.
///
/// Every test of the suite runs over each engine.
enum StoreEngine: String, CaseIterable, CustomTestStringConvertible {
    case inMemory = "in memory"
    case sqlite = "SQLite"
    case postgresql = "PostgreSQL"
    case pooled = "PostgreSQL through pgbouncer"

    var testDescription: String { rawValue }

    /// Runs `body` with an empty store whose clock stands still, and then closes the store.
    func withStore(_ body: (any BrokerStore) async throws -> Void) async throws {
        try await withStore { store, _ in try await body(store) }
    }

    /// Runs `body` with an empty store and the store's clock, and then closes the store.
    func withStore(_ body: (any BrokerStore, TestClock) async throws -> Void) async throws {
        let clock = TestClock()
        switch self {
        case .inMemory:
            let store = InMemoryStore(monotonic: { clock.monotonic })
            try await body(store, clock)
            await store.close()
        case .sqlite:
            try await TemporaryStore.with(monotonic: { clock.monotonic }) { store, _ in try await body(store, clock) }
        case .postgresql, .pooled:
            try await PostgreSQLServer.withDatabase { direct, pooled in
                let isPooled = self == .pooled
                let settings = try ConnectionSettings(url: isPooled ? pooled : direct, isPooled: isPooled)
                let store = try await PostgreSQLStore.open(
                    settings, listening: nil, connections: 5, migrating: false, testClock: { clock.monotonic })
                do {
                    try await body(store, clock)
                } catch {
                    await store.close()
                    throw error
                }
                await store.close()
            }
        }
    }
}
