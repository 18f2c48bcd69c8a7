import Broker
import Dispatch
import GRDB

@testable import BrokerStore

/// Keeps the writer's thread busy, so that a test decides which jobs wait at the same time.
final class WriterHold: Sendable {
    private let gate = DispatchSemaphore(value: 0)

    /// Blocks the store's writer until `letGo`.
    ///
    /// Returns when the writer is blocked.
    static func take(_ store: SQLiteStore) async -> WriterHold {
        let hold = WriterHold()
        await withCheckedContinuation { continuation in
            Task.detached {
                try? await store.writer.exclusively { _ in
                    continuation.resume()
                    hold.gate.wait()
                }
            }
        }
        return hold
    }

    func letGo() { gate.signal() }
}

extension SQLiteStore {
    /// Runs SQL on the writer outside any transaction.
    func maintain(_ sql: String) async throws {
        try await writer.exclusively { database in try database.execute(sql: sql) }
    }

    /// Returns one integer.
    func integer(_ sql: String) async throws -> Int {
        try await readers.read { database in try Int.fetchOne(database, sql: sql) ?? -1 }
    }
}
