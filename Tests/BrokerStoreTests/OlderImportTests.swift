import Broker
import BrokerTestSupport
import Testing

@testable import BrokerStore

/// Imports as release 0.1.0 finds them: it ignores the columns of imports, and reads a row like a code's.
@Suite("Imports next to release 0.1.0", .timeLimit(.minutes(2))) struct OlderImportTests {
    /// A store, and its text columns as SQL returns them.
    private struct Raw {
        let store: any BrokerStore
        let run: (String) async throws -> Void
        let integer: (String) async throws -> Int?
    }

    private func withStores(_ body: (Raw) async throws -> Void) async throws {
        try await TemporaryStore.with { store, _ in
            try await body(
                Raw(
                    store: store, run: { try await store.maintain($0) },
                    integer: { Int(try await store.integer($0)) }))
        }
        try await PostgreSQLServer.withDatabase { url, _ in
            let store = try await PostgreSQLStore.open(
                try ConnectionSettings(url: url), listening: nil, connections: 2, migrating: false)
            let result: Result<Void, any Error>
            do {
                try await body(
                    Raw(
                        store: store, run: { _ = try PostgreSQLServer.execute($0, in: url) },
                        integer: { try PostgreSQLServer.execute($0, in: url).first.flatMap { $0.flatMap(Int.init) } }))
                result = .success(())
            } catch { result = .failure(error) }
            await store.close()
            try result.get()
        }
    }

    private func importRow() -> ExchangeRow {
        var row = Rows.exchange()
        row.imported = ImportMarks(keptUntil: Rows.now.advanced(by: ImportMarks.period))
        return row
    }

    private func claim(_ row: ExchangeRow, _ store: any BrokerStore) async throws -> ExchangeRow {
        guard case .claimed(let claimed) = try await store.claimImport(row, sparing: .none) else {
            throw StoreFailure.unavailable("not claimed")
        }
        return claimed
    }

    @Test("An import is spent for a reason that release 0.1.0 lacks → the older column has a reason of codes (SEC-130)")
    func reasons() async throws {
        try await withStores { raw in
            let reasons: [ExchangeRow.SpentReason] = [
                .grantRevoked, .refreshLost, .notBound, .expired, .identityRejected,
            ]
            for reason in reasons {
                try await raw.run("DELETE FROM exchanges")
                let row = try await claim(importRow(), raw.store)
                let isSettled = try await raw.store.settleExchange(
                    row.key, fence: row.fence, outcome: .spent(reason), outbox: [], registration: nil)
                #expect(isSettled)
                #expect(try await raw.store.exchange(row.key)?.outcome == .spent(reason))
                let older = try await raw.integer("SELECT spent_reason FROM exchanges")
                #expect(older.map { (1...11).contains($0) } == true)
                #expect(try await raw.integer("SELECT max(format) FROM exchanges") == 1)
            }
        }
    }

    @Test("An import's pair is kept, and release 0.1.0 claims the import's row → the claim is refused")
    func pairs() async throws {
        try await withStores { raw in
            let row = try await claim(importRow(), raw.store)
            let pair = ImportPair(key: row.key, tokens: Rows.sealed("pair"))
            #expect(
                try await raw.store.keepPair(pair, as: ImportMarks.attemptsWithPair, fence: row.fence, at: Rows.now))
            #expect(try await raw.store.releaseImport(row.key, fence: row.fence, ImportRelease(calls: 0)))
            var again = row
            again.claim = Rows.claim()
            guard case .existing(let standing) = try await raw.store.claimExchange(again, maximumAttempts: 3) else {
                Issue.record("the token would be sent a second time")
                return
            }
            #expect(standing.outcome == .released)
        }
    }

    @Test("Release 0.1.0 spends or deletes an import that has a pair → the pair goes to the outbox one time")
    func olderUpkeep() async throws {
        try await withStores { raw in
            for statement in ["UPDATE exchanges SET outcome = 4, spent_reason = 4", "DELETE FROM exchanges"] {
                try await raw.run("DELETE FROM outbox")
                let row = try await claim(importRow(), raw.store)
                let pair = ImportPair(key: row.key, tokens: Rows.sealed("pair"))
                #expect(
                    try await raw.store.keepPair(pair, as: ImportMarks.attemptsWithPair, fence: row.fence, at: Rows.now)
                )
                try await raw.run(statement)
                _ = try await raw.store.sweep(now: Rows.seconds(3601), limit: 10, lapsedSince: Rows.now)
                let outbox = try await raw.store.takeOutbox(
                    now: Rows.seconds(3601), until: Rows.seconds(3700), limit: 9)
                #expect(outbox.map(\.boundTo) == [row.key] && outbox.map(\.tokens) == [pair.tokens])
                #expect(try await raw.store.keptPair(row.key) == nil)
            }
        }
    }
}
