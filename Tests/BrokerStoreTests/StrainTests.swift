import Broker
import BrokerTestSupport
import Dispatch
import Foundation
import GRDB
import Synchronization
import Testing

@testable import BrokerStore

/// The SQLite store while a disk is slow, a long read is in progress, or a second process opens the database.
@Suite("SQLite: long reads, a hanging disk and full queues", .serialized, .timeLimit(.minutes(2)))
struct StrainTests {
    /// Returns the time that `body` took, on the monotonic clock.
    private func elapsed(_ body: () async throws -> Void) async rethrows -> Duration {
        let clock = ContinuousClock()
        let begin = clock.now
        try await body()
        return clock.now - begin
    }

    @Test("A long read occupies one of the store's lanes → reads on other lanes continue", .timeLimit(.minutes(1)))
    func longRead() async throws {
        try await TemporaryStore.with { store, _ in
            let session = Rows.session()
            try await store.signIn(session)
            let gate = DispatchSemaphore(value: 0)
            let isHeld = Atomic<Bool>(false)
            let readers = store.readers
            async let held: Void = readers.read { _ in
                isHeld.store(true, ordering: .releasing)
                // The test releases this lane when its own read is done. If that read waits for this lane, the lane is released
                // after 20 s.
                _ = gate.wait(timeout: .now() + .seconds(20))
            }
            try await eventually("the lock is held") { isHeld.load(ordering: .acquiring) }
            let time = try await elapsed { _ = try await store.session(tokenDigest: session.tokenDigest) }
            #expect(time < .seconds(10))
            gate.signal()
            try await held
        }
    }

    @Test(
        "Another process reads the database during a sweep → the sweep does not delay the broker's writes",
        .timeLimit(.minutes(1)))
    func sweepBesideRead() async throws {
        try await TemporaryStore.with { store, path in
            for _ in 0..<50 { try await store.signIn(Rows.session()) }
            let reading = try DatabaseQueue(path: path)
            let release = DispatchSemaphore(value: 0)
            let isReading = Atomic<Bool>(false)
            let reader = Thread {
                try? reading.inTransaction(.deferred) { database in
                    _ = try Int.fetchOne(database, sql: "SELECT count(*) FROM sessions")
                    isReading.store(true, ordering: .releasing)
                    release.wait()
                    return .commit
                }
            }
            reader.start()
            try await eventually("the long read has begun") { isReading.load(ordering: .acquiring) }
            async let swept = store.sweep(now: Rows.seconds(8000), limit: 10, lapsedSince: Rows.now)
            try await Task.sleep(for: .milliseconds(50))
            let time = try await elapsed {
                _ = try await store.insertLogin(Rows.login(), limits: LoginLimits())
            }
            // If the sweep waited for the reader, it would hold the writer for five seconds.
            #expect(time < .seconds(3))
            _ = try await swept
            release.signal()
        }
    }

    @Test(
        "The lock file is removed → a second opening of the database is still refused",
        .timeLimit(.minutes(1)))
    func lockName() async throws {
        try await TemporaryStore.with { store, path in
            try FileManager.default.removeItem(atPath: path + ".lock")
            await #expect(throws: StoreOpenFailure.locked(path)) { try await SQLiteStore.open(path: path) }
            try await store.ping()
        }
    }

    @Test(
        "The disk hangs → a caller's write fails after ten seconds, and is not carried out later",
        .timeLimit(.minutes(1)))
    func hangingDisk() async throws {
        try await TemporaryStore.with { store, _ in
            let hold = await WriterHold.take(store)
            let login = Rows.login()
            let time = await elapsed {
                await #expect(throws: StoreFailure.self) {
                    try await store.insertLogin(login, limits: LoginLimits())
                }
            }
            // The store withdraws a write that has waited for ten seconds. Without this limit, the write would wait until the
            // test's time limit.
            #expect(time < .seconds(30))
            hold.letGo()
            // The withdrawn write is not carried out after the writer is free again.
            _ = try await store.burnLogin(state: Rows.digest())
            #expect(try await store.login(state: login.state) == nil)
        }
    }

    @Test("The writer's queue is full → further writes are refused", .timeLimit(.minutes(1)))
    func queueBound() async throws {
        try await TemporaryStore.with { store, _ in
            let hold = await WriterHold.take(store)
            try await withThrowingTaskGroup(of: Void.self) { group in
                defer { hold.letGo() }
                for _ in 0..<GroupCommitWriter.maximumWaiting {
                    group.addTask { _ = try? await store.burnLogin(state: Rows.digest()) }
                }
                try await eventually("the writer's queue is full") {
                    store.writer.waitingCount >= GroupCommitWriter.maximumWaiting
                }
                await #expect(throws: StoreFailure.unavailable("too many writes wait")) {
                    try await store.burnLogin(state: Rows.digest())
                }
            }
        }
    }
}
