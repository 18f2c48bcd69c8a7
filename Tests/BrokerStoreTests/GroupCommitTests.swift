import Broker
import BrokerTestSupport
import GRDB
import Testing

@testable import BrokerStore

@Suite("SQLite: group commit", .timeLimit(.minutes(2)))
struct GroupCommitTests {
    private struct Refusal: Error {}

    @Test(
        "200 writes wait for the writer → one transaction commits them all, and each caller gets the result of its write"
    )
    func grouped() async throws {
        try await TemporaryStore.with { store, _ in
            let hold = await WriterHold.take(store)
            let before = store.writeStatistics
            try await withThrowingTaskGroup(of: LoginInsertion.self) { group in
                for _ in 0..<200 {
                    group.addTask { try await store.insertLogin(Rows.login(), limits: LoginLimits()) }
                }
                try await eventually("work waits for the writer") { store.writer.waitingCount >= 200 }
                hold.letGo()
                for try await result in group { #expect(result == .inserted) }
            }
            let after = store.writeStatistics
            #expect(after.writes - before.writes == 200)
            #expect(after.transactions - before.transactions == 1)
        }
    }

    @Test("Two of three writes in a transaction fail → these two change nothing, and the third write succeeds")
    func failingMember() async throws {
        try await TemporaryStore.with { store, _ in
            let login = Rows.login()
            _ = try await store.insertLogin(login, limits: LoginLimits())
            let hold = await WriterHold.take(store)
            let good = Rows.login()
            let first = Task { try await store.insertLogin(good, limits: LoginLimits()) }
            try await eventually("work waits for the writer") { store.writer.waitingCount >= 1 }
            let twin = Task { try await store.insertLogin(login, limits: LoginLimits()) }
            try await eventually("work waits for the writer") { store.writer.waitingCount >= 2 }
            // A job that writes and then fails changes nothing.
            let halfway = Rows.login()
            let half = Task {
                try await store.writer.write { database in
                    try database.change(LoginSQL.insert, halfway.values)
                    throw Refusal()
                }
            }
            try await eventually("work waits for the writer") { store.writer.waitingCount >= 3 }
            hold.letGo()
            #expect(try await first.value == .inserted)
            await #expect(throws: StoreFailure.self) { try await twin.value }
            await #expect(throws: StoreFailure.self) { try await half.value }
            #expect(try await store.login(state: good.state) == good)
            #expect(try await store.login(state: halfway.state) == nil)
        }
    }

    @Test(
        "SQLite itself rolls a transaction back → all writes of this transaction fail, and none commits alone (library note 10)"
    )
    func lostTransaction() async throws {
        try await TemporaryStore.with { store, _ in
            let (early, late) = (Rows.login(), Rows.login())
            let hold = await WriterHold.take(store)
            let first = Task { try await store.insertLogin(early, limits: LoginLimits()) }
            try await eventually("work waits for the writer") { store.writer.waitingCount >= 1 }
            let lost = Task { try await store.writer.write { database in try database.execute(sql: "ROLLBACK") } }
            try await eventually("work waits for the writer") { store.writer.waitingCount >= 2 }
            let last = Task { try await store.insertLogin(late, limits: LoginLimits()) }
            try await eventually("work waits for the writer") { store.writer.waitingCount >= 3 }
            hold.letGo()
            await #expect(throws: StoreFailure.self) { try await first.value }
            await #expect(throws: StoreFailure.self) { try await lost.value }
            await #expect(throws: StoreFailure.self) { try await last.value }
            #expect(try await store.login(state: early.state) == nil)
            #expect(try await store.login(state: late.state) == nil)
            let again = try await store.insertLogin(late, limits: LoginLimits())
            #expect(again == .inserted)
        }
    }

    @Test("The caller of a write is cancelled → the caller stops waiting, but the write is still made (library note 9)")
    func cancelledCaller() async throws {
        try await TemporaryStore.with { store, _ in
            let login = Rows.login()
            let hold = await WriterHold.take(store)
            let caller = Task { try await store.insertLogin(login, limits: LoginLimits()) }
            try await eventually("work waits for the writer") { store.writer.waitingCount >= 1 }
            caller.cancel()
            await #expect(throws: StoreFailure.inDoubt("the caller gave up")) { try await caller.value }
            // A write is carried out even if its caller's task is cancelled before the write begins.
            let second = Rows.login()
            let early = Task {
                withUnsafeCurrentTask { $0?.cancel() }
                return try await store.insertLogin(second, limits: LoginLimits())
            }
            await #expect(throws: StoreFailure.self) { try await early.value }
            hold.letGo()
            try await store.ping()
            _ = try await store.burnLogin(state: Rows.digest())
            #expect(try await store.login(state: login.state) == login)
            #expect(try await store.login(state: second.state) == second)
        }
    }

    @Test("The store is closed → the accepted writes are finished first")
    func closing() async throws {
        try await TemporaryStore.withDirectory { directory in
            let path = directory + "/coatcheck.db"
            let logins = (0..<50).map { _ in Rows.login() }
            do {
                let store = try await SQLiteStore.open(path: path)
                let hold = await WriterHold.take(store)
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for login in logins {
                        group.addTask { _ = try await store.insertLogin(login, limits: LoginLimits()) }
                    }
                    try await eventually("work waits for the writer") { store.writer.waitingCount >= logins.count }
                    group.addTask { await store.close() }
                    hold.letGo()
                    try await group.waitForAll()
                }
            }
            let again = try await SQLiteStore.open(path: path)
            for login in logins { #expect(try await again.login(state: login.state) == login) }
            await again.close()
        }
    }

    @Test("64 callers write at the same time, during sweeps → each write succeeds, without SQLITE_BUSY (SEC-127)")
    func manyWriters() async throws {
        try await TemporaryStore.with { store, _ in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<64 {
                    group.addTask {
                        for _ in 0..<5 {
                            let session = Rows.session()
                            try await store.signIn(session)
                            #expect(try await store.session(tokenDigest: session.tokenDigest) == session)
                        }
                    }
                }
                group.addTask {
                    for _ in 0..<5 { _ = try await store.sweep(now: Rows.now, limit: 10, lapsedSince: Rows.now) }
                }
                try await group.waitForAll()
            }
            let statistics = store.writeStatistics
            #expect(statistics.transactions < statistics.writes)
        }
    }
}
