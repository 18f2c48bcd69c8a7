import Broker
import BrokerTestSupport
import Foundation
import GRDB
import Testing

@testable import BrokerStore

@Suite("SQLite: a full disk", .timeLimit(.minutes(2)))
struct FullDiskTests {
    @Test(
        "A full disk → new logins are refused, reads are answered, and ended sessions stay ended (SEC-123)",
        .timeLimit(.minutes(1)))
    func full() async throws {
        try await TemporaryStore.with { store, _ in
            let subject = Rows.digest()
            let big = String(repeating: "t", count: 20_000)
            let sessions = (0..<3).map { Rows.session(subject: subject, at: Rows.seconds($0), tokens: big) }
            for session in sessions { try await store.signIn(session) }
            let lasting = Rows.session()
            try await store.signIn(lasting)
            // The database cannot grow any further. A write that needs a page gets SQLITE_FULL, as from a full disk.
            let pages = try await store.integer("PRAGMA page_count")
            try await store.maintain("PRAGMA max_page_count = \(pages)")

            await #expect(throws: StoreFailure.self) {
                for _ in 0..<200 {
                    _ = try await store.insertLogin(Rows.login(), limits: LoginLimits(pendingPerToken: 1000))
                }
            }
            #expect(try await store.session(tokenDigest: sessions[0].tokenDigest) == sessions[0])

            // The result reports that the ending is unwritten, so the caller may not answer 204 (guarantee 4). From now on, the
            // store refuses the session.
            let ended = try await store.endSessions(
                .token(sessions[0].tokenDigest), reason: .loggedOut, now: Rows.seconds(9), limit: 9)
            #expect(ended == EndedBatch(ended: [sessions[0].tokenDigest], more: false, isWritten: false))
            #expect(store.pendingEndings == 1)
            let row = try #require(try await store.session(tokenDigest: sessions[0].tokenDigest))
            #expect(row.endReason == .loggedOut)
            #expect(row.tokens == nil)
            #expect(try await store.session(handle: sessions[0].handle)?.endedAt == Rows.seconds(9))
            let live = try await store.sessions(.subject(subject), .live, after: nil, limit: 9, now: Rows.seconds(9))
            #expect(live.map(\.tokenDigest) == [sessions[2].tokenDigest, sessions[1].tokenDigest])
            let claim = try await store.claimRefresh(sessions[0].tokenDigest)
            #expect(claim == .gone)
            #expect(try await store.commit(sessions[0].tokenDigest, version: 1, "new") == .ended)
            let again = try await store.endSessions(
                .token(sessions[0].tokenDigest), reason: .admin, now: Rows.now, limit: 9)
            #expect(again == EndedBatch(ended: [], more: false, isWritten: false))
            let rest = try await store.endSessions(.subject(subject), reason: .admin, now: Rows.seconds(10), limit: 9)
            #expect(Set(rest.ended) == [sessions[1].tokenDigest, sessions[2].tokenDigest] && !rest.isWritten)
            #expect(store.pendingEndings == 3)

            // The disk has room again. The store then writes the pending endings by itself, without a further call.
            try await store.maintain("PRAGMA max_page_count = 1000000")
            try await eventually("the pending endings are written, and all writes are accepted again") {
                store.pendingEndings == 0 && !store.writer.endingsOnly
            }
            #expect(try await store.insertLogin(Rows.login(), limits: LoginLimits()) == .inserted)
            #expect(try await store.session(tokenDigest: sessions[0].tokenDigest)?.endReason == .loggedOut)
            #expect(try await store.session(tokenDigest: sessions[1].tokenDigest)?.endReason == .admin)
            #expect(try await store.outboxCount() == 3)
            #expect(try await store.session(tokenDigest: lasting.tokenDigest) == lasting)
        }
    }

    @Test(
        "A full disk delayed an ending, and then there is room → closing the store writes the ending",
        .timeLimit(.minutes(1)))
    func close() async throws {
        try await TemporaryStore.withDirectory { directory in
            let path = directory + "/coatcheck.db"
            let session = Rows.session(tokens: String(repeating: "t", count: 20_000))
            do {
                let store = try await SQLiteStore.open(path: path, reserve: 1 << 16)
                try await store.signIn(session)
                let pages = try await store.integer("PRAGMA page_count")
                try await store.maintain("PRAGMA max_page_count = \(pages)")
                let ended = try await store.endSessions(
                    .token(session.tokenDigest), reason: .loggedOut, now: Rows.seconds(9), limit: 9)
                #expect(!ended.isWritten)
                try await store.maintain("PRAGMA max_page_count = 1000000")
                await store.close()
            }
            let again = try await SQLiteStore.open(path: path, reserve: 1 << 16)
            #expect(try await again.session(tokenDigest: session.tokenDigest)?.endReason == .loggedOut)
            await again.close()
        }
    }

    @Test(
        "The disk was full, and the reserve file is used up → only endings are written until the reserve exists again",
        .timeLimit(.minutes(1)))
    func endingsOnly() async throws {
        try await TemporaryStore.with { store, path in
            // The reserve file's path is a symbolic link here. So the store can remove the reserve, but cannot make it again.
            let reserve = path + ".reserve"
            try FileManager.default.moveItem(atPath: reserve, toPath: reserve + ".file")
            try FileManager.default.createSymbolicLink(atPath: reserve, withDestinationPath: reserve + ".file")
            let session = Rows.session()
            try await store.signIn(session)
            let pages = try await store.integer("PRAGMA page_count")
            try await store.maintain("PRAGMA max_page_count = \(pages)")
            let big = String(repeating: "t", count: 50_000)
            await #expect(throws: StoreFailure.full) { try await store.signIn(Rows.session(tokens: big)) }
            #expect(store.writer.endingsOnly && !store.hasReserve)
            try await store.maintain("PRAGMA max_page_count = 1000000")
            await #expect(throws: StoreFailure.full) {
                try await store.insertLogin(Rows.login(), limits: LoginLimits())
            }
            let ended = try await store.endSessions(
                .token(session.tokenDigest), reason: .loggedOut, now: Rows.seconds(9), limit: 9)
            #expect(ended == EndedBatch(ended: [session.tokenDigest], more: false))
            try FileManager.default.removeItem(atPath: reserve)
            try await eventually("all writes are accepted again") { !store.writer.endingsOnly }
            #expect(store.hasReserve)
            #expect(try await store.insertLogin(Rows.login(), limits: LoginLimits()) == .inserted)
        }
    }

    @Test(
        "The disk is full: a reserve file with all its blocks → ready; a file that lacks blocks → refused and unchanged"
    )
    func reserveStands() async throws {
        try await TemporaryStore.withDirectory { directory in
            let path = directory + "/reserve"
            let size = 1 << 16
            func bytes() throws -> Int { try #require(Self.attributes(path)[.size] as? Int) }
            #expect(ReserveFile(path: path, size: size).isReady)
            #expect(try bytes() == size)
            let again = ReserveFile(path: path, size: size) { _, _ in false }
            #expect(again.isReady)
            #expect(try bytes() == size)
            // A file reserves disk space only if its blocks are allocated. `truncate` allocates none, so the store refuses this
            // file, and leaves it unchanged.
            for length in [size, size / 2] {
                try FileManager.default.removeItem(atPath: path)
                #expect(FileManager.default.createFile(atPath: path, contents: nil))
                #expect(truncate(path, off_t(length)) == 0)
                let refused = ReserveFile(path: path, size: size) { _, _ in false }
                #expect(!refused.isReady && !refused.make())
                #expect(try bytes() == length)
                #expect(!refused.free())
            }
            #expect(ReserveFile(path: path, size: size).isReady)
            #expect(try bytes() == size)
        }
    }

    @Test("The reserve file could not be made at the start → a later sweep makes it", .timeLimit(.minutes(1)))
    func reserveIsMadeLater() async throws {
        try await TemporaryStore.withDirectory { directory in
            let path = directory + "/coatcheck.db"
            try FileManager.default.createSymbolicLink(
                atPath: path + ".reserve", withDestinationPath: directory + "/elsewhere")
            let store = try await SQLiteStore.open(path: path, reserve: 1 << 16)
            _ = try await store.sweep(now: Rows.now, limit: 9, lapsedSince: Rows.now)
            #expect(!store.hasReserve)
            try FileManager.default.removeItem(atPath: path + ".reserve")
            _ = try await store.sweep(now: Rows.now, limit: 9, lapsedSince: Rows.now)
            try await eventually("the reserve file exists") { store.hasReserve }
            await store.close()
        }
    }

    @Test(
        "A full disk delayed an ending, and then there is room → the store writes the ending by itself",
        .timeLimit(.minutes(1)))
    func byThemselves() async throws {
        try await TemporaryStore.withDirectory { directory in
            let store = try await SQLiteStore.open(path: directory + "/coatcheck.db", reserve: 0)
            let session = Rows.session(tokens: String(repeating: "t", count: 20_000))
            try await store.signIn(session)
            let pages = try await store.integer("PRAGMA page_count")
            try await store.maintain("PRAGMA max_page_count = \(pages)")
            let ended = try await store.endSessions(
                .token(session.tokenDigest), reason: .loggedOut, now: Rows.seconds(9), limit: 9)
            #expect(!ended.isWritten)
            try await store.maintain("PRAGMA max_page_count = 1000000")
            try await eventually("the pending endings are written") { store.pendingEndings == 0 }
            #expect(try await store.integer("SELECT count(*) FROM sessions WHERE ended_at IS NOT NULL") == 1)
            await store.close()
        }
    }

    private static func attributes(_ path: String) throws -> [FileAttributeKey: Any] {
        try FileManager.default.attributesOfItem(atPath: path)
    }

    @Test(
        "A reader delays the checkpoint during 1,000 endings → these endings use less space than the reserve file has",
        .timeLimit(.minutes(2))
    )
    func measured() async throws {
        try await TemporaryStore.with { store, path in
            let text = String(repeating: "t", count: 1200)
            let sessions = (0..<1000).map { _ in Rows.session(tokens: text) }
            for session in sessions { try await store.signIn(session) }
            _ = try await store.sweep(now: Rows.now, limit: 9, lapsedSince: Rows.now)
            var configuration = Configuration()
            configuration.allowsUnsafeTransactions = true
            let reading = try DatabaseQueue(path: path, configuration: configuration)
            try reading.inDatabase { database in
                try database.execute(sql: "BEGIN")
                _ = try Int.fetchOne(database, sql: "SELECT count(*) FROM sessions")
            }
            let before = try Self.size(path)
            for session in sessions {
                let ended = try await store.endSessions(
                    .token(session.tokenDigest), reason: .loggedOut, now: Rows.seconds(9), limit: 9)
                #expect(ended.isWritten)
            }
            let used = try Self.size(path) - before
            print("1,000 endings one by one take \(used) bytes")
            #expect(used < ReserveFile.standardSize)
            try reading.inDatabase { try $0.execute(sql: "COMMIT") }
        }
    }

    /// The size of the database, its log and its shared memory file, in bytes.
    private static func size(_ path: String) throws -> Int {
        try ["", "-wal", "-shm"].reduce(0) { sum, suffix in
            let attributes = try FileManager.default.attributesOfItem(atPath: path + suffix)
            return sum + (attributes[.size] as? Int ?? 0)
        }
    }
}
