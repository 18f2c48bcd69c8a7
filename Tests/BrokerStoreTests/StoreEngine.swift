import Broker
import BrokerStore
import Testing

/// An engine under the conformance suite: every test of it runs over each.
enum StoreEngine: String, CaseIterable, CustomTestStringConvertible {
    case inMemory = "in memory"
    case sqlite = "SQLite"

    var testDescription: String { rawValue }

    /// Runs `body` with an empty store, and closes it.
    func withStore(_ body: (any BrokerStore) async throws -> Void) async throws {
        switch self {
        case .inMemory:
            let store = InMemoryStore()
            try await body(store)
            await store.close()
        case .sqlite:
            try await TemporaryStore.with { store, _ in try await body(store) }
        }
    }
}
