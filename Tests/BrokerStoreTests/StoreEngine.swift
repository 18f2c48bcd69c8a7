import Broker
import BrokerStore
import Testing

/// An engine under the conformance suite: every test of it runs over each.
enum StoreEngine: String, CaseIterable, CustomTestStringConvertible {
    case inMemory = "in memory"
    case sqlite = "SQLite"

    var testDescription: String { rawValue }

    /// Runs `body` with an empty store whose clock stands still, and closes it.
    func withStore(_ body: (any BrokerStore) async throws -> Void) async throws {
        try await withStore { store, _ in try await body(store) }
    }

    /// Runs `body` with an empty store and its clock, and closes it.
    func withStore(_ body: (any BrokerStore, ManualClock) async throws -> Void) async throws {
        let clock = ManualClock()
        switch self {
        case .inMemory:
            let store = InMemoryStore(monotonic: clock.now)
            try await body(store, clock)
            await store.close()
        case .sqlite:
            try await TemporaryStore.with(monotonic: clock.now) { store, _ in try await body(store, clock) }
        }
    }
}
