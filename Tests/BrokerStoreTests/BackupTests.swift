import Broker
import Foundation
import Testing

@testable import BrokerStore

@Suite("SQLite: backup and restore", .timeLimit(.minutes(2)))
struct BackupTests {
    private func accept(_ copy: DatabaseCopy, _ endings: EndingsSummary?) {}

    /// Makes a backup of a store with two sessions, and returns the sessions.
    private func backUp(_ path: String, to copy: String) async throws -> [SessionRow] {
        let store = try await SQLiteStore.open(path: path, reserve: 0)
        let rows = [Rows.session(), Rows.session()]
        for row in rows { try await store.signIn(row) }
        try await store.backUp(to: copy)
        await store.close()
        return rows
    }

    @Test("A restore while the database is in use → refused, and nothing changes (SEC-127)")
    func locked() async throws {
        try await TemporaryStore.withDirectory { directory in
            let (path, copy) = (directory + "/data/coatcheck.db", directory + "/copy.db")
            _ = try await backUp(path, to: copy)
            let store = try await SQLiteStore.open(path: path, reserve: 0)
            let row = Rows.session()
            try await store.signIn(row)
            await #expect(throws: StoreOpenFailure.locked(path)) {
                _ = try await SQLiteStore.restore(BackupFile(copy), to: path, stamp: "1", accept: accept)
            }
            #expect(try await store.session(tokenDigest: row.tokenDigest) == row)
            await store.close()
            #expect(!FileManager.default.fileExists(atPath: path + ".restoring"))
        }
    }

    @Test("A restore from a file that is not an intact backup of the broker → refused, and nothing changes")
    func foreign() async throws {
        try await TemporaryStore.withDirectory { directory in
            let (path, copy) = (directory + "/data/coatcheck.db", directory + "/copy.db")
            let rows = try await backUp(path, to: copy)
            func refuse(_ content: Data?, _ name: String, _ failure: StoreOpenFailure) async throws {
                let file = directory + "/" + name
                if let content { try content.write(to: URL(fileURLWithPath: file)) }
                await #expect(throws: failure, "\(name)") {
                    _ = try await SQLiteStore.restore(BackupFile(file), to: path, stamp: "1", accept: accept)
                }
            }
            try await refuse(nil, "nowhere", .file(directory + "/nowhere", reason: "there is no such file"))
            try await refuse(Data(), "empty", .notOurs(directory + "/empty"))
            try await refuse(Data(repeating: 7, count: 9000), "noise", .notOurs(directory + "/noise"))
            var damaged = try Data(contentsOf: URL(fileURLWithPath: copy))
            for index in stride(from: 4096 * 2 + 100, to: damaged.count, by: 64) { damaged[index] = 0xA5 }
            try await refuse(damaged, "damaged", .damaged(directory + "/damaged"))
            // A backup with a newer schema is refused.
            let newer = directory + "/newer/coatcheck.db"
            let store = try await SQLiteStore.open(path: newer, reserve: 0)
            let version = Schema.newest + 3
            try await store.maintain(
                "INSERT INTO schema_version (version, readable_from) VALUES (\(version), \(version))")
            await store.close()
            try await refuse(nil, "newer/coatcheck.db", .tooNew(found: version, known: Schema.newest))
            // The caller's check of the restored copy refuses the backup. A caller does this if its key ring does not open the
            // records.
            await #expect(throws: StoreOpenFailure.refused("another ring")) {
                _ = try await SQLiteStore.restore(BackupFile(copy), to: path, stamp: "1") {
                    copy, _ throws(StoreOpenFailure) in
                    #expect(copy.sessions == 2 && copy.sample.count == 4)
                    throw .refused("another ring")
                }
            }
            // Only a backup can be restored, and not the file of a running database.
            let working = try await SQLiteStore.open(path: directory + "/working/coatcheck.db", reserve: 0)
            try await working.signIn(Rows.session())
            await #expect(throws: StoreOpenFailure.self) {
                _ = try await SQLiteStore.restore(
                    BackupFile(directory + "/working/coatcheck.db"), to: path, stamp: "1", accept: accept)
            }
            await working.close()
            let names = try FileManager.default.contentsOfDirectory(atPath: directory + "/data")
            #expect(!names.contains { $0.contains("before") || $0.contains("restoring") }, "\(names)")
            let same = try await SQLiteStore.open(path: path, reserve: 0)
            for row in rows { #expect(try await same.session(tokenDigest: row.tokenDigest) == row) }
            await same.close()
        }
    }

    @Test("A restore of an unreadable file to an empty place → refused, and no database is made")
    func nothingMade() async throws {
        try await TemporaryStore.withDirectory { directory in
            try Data(repeating: 7, count: 9000).write(to: URL(fileURLWithPath: directory + "/noise"))
            let path = directory + "/data/coatcheck.db"
            await #expect(throws: StoreOpenFailure.notOurs(directory + "/noise")) {
                _ = try await SQLiteStore.restore(
                    BackupFile(directory + "/noise"), to: path, stamp: "1", accept: accept)
            }
            #expect(!FileManager.default.fileExists(atPath: path))
        }
    }

    @Test(
        "A backup to an existing file → refused, and the file stays; a backup of a closed store → fails, and leaves no file"
    )
    func overwriting() async throws {
        try await TemporaryStore.with { store, path in
            let copy = path + ".copy"
            try Data("mine".utf8).write(to: URL(fileURLWithPath: copy))
            await #expect(throws: StoreOpenFailure.self) { try await store.backUp(to: copy) }
            #expect(try Data(contentsOf: URL(fileURLWithPath: copy)) == Data("mine".utf8))
            await #expect(throws: StoreOpenFailure.self) { try await store.backUp(to: path + "/nowhere/copy") }
            await store.close()
            await #expect(throws: StoreOpenFailure.self) { try await store.backUp(to: path + ".late") }
            #expect(!FileManager.default.fileExists(atPath: path + ".late"))
        }
    }

    @Test(
        "A backup is made during writes, then restored → sessions from before the backup are back, and the old database is kept"
    )
    func roundTrip() async throws {
        try await TemporaryStore.withDirectory { directory in
            let (path, copy) = (directory + "/data/coatcheck.db", directory + "/copy.db")
            let store = try await SQLiteStore.open(path: path, reserve: 0)
            let before = Rows.session()
            try await store.signIn(before)
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<40 { group.addTask { try await store.signIn(Rows.session()) } }
                group.addTask { try await store.backUp(to: copy) }
                try await group.waitForAll()
            }
            #expect(try TemporaryStore.mode(copy) == 0o600)
            let inspected = try await DatabaseCopy.inspect(copy)
            #expect((1...41).contains(inspected.sessions) && inspected.schema == Schema.newest)
            let after = Rows.session()
            try await store.signIn(after)
            await store.close()
            let restored = try await SQLiteStore.restore(
                BackupFile(copy), to: path, stamp: "20261122T210000Z", accept: accept)
            #expect(restored.kept == path + ".before-20261122T210000Z")
            for name in [path, restored.kept ?? ""] { #expect(try TemporaryStore.mode(name) == 0o600) }
            let again = try await SQLiteStore.open(path: path, reserve: 0)
            #expect(try await again.session(tokenDigest: before.tokenDigest) == before)
            #expect(try await again.session(tokenDigest: after.tokenDigest) == nil)
            await again.close()
            let kept = try await SQLiteStore.open(path: restored.kept ?? "", reserve: 0)
            #expect(try await kept.session(tokenDigest: after.tokenDigest) == after)
            await kept.close()
            // A second restore with the same stamp is refused, because it would overwrite the former database that the first
            // restore has kept.
            await #expect(throws: StoreOpenFailure.self) {
                _ = try await SQLiteStore.restore(BackupFile(copy), to: path, stamp: "20261122T210000Z", accept: accept)
            }
            // At a path without a database, there is no former database to keep.
            let fresh = try await SQLiteStore.restore(
                BackupFile(copy), to: directory + "/fresh/coatcheck.db", stamp: "1", accept: accept)
            #expect(fresh.kept == nil)
        }
    }

    @Test("A store is closed → its single file is the whole database, because the log is merged into it")
    func mergedLog() async throws {
        try await TemporaryStore.withDirectory { directory in
            let path = directory + "/data/coatcheck.db"
            let store = try await SQLiteStore.open(path: path)
            let row = Rows.session()
            try await store.signIn(row)
            #expect(try #require(DatabaseFiles.size(path + "-wal")) > 0)
            await store.close()
            #expect(DatabaseFiles.size(path + "-wal") ?? 0 == 0)
            let copy = directory + "/alone/coatcheck.db"
            try FileManager.default.createDirectory(
                atPath: directory + "/alone", withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
            try FileManager.default.copyItem(atPath: path, toPath: copy)
            let alone = try await SQLiteStore.open(path: copy)
            #expect(try await alone.session(tokenDigest: row.tokenDigest) == row)
            await alone.close()
        }
    }

    @Test("Many processes migrate at the same time → one migrates, and the others wait for it")
    func migrators() async throws {
        try await TemporaryStore.withDirectory { directory in
            let path = directory + "/data/coatcheck.db"
            let results = try await withThrowingTaskGroup(of: Int.self) { group in
                for _ in 0..<8 {
                    group.addTask { try await SQLiteStore.migrate(path: path, waiting: .seconds(30)).from }
                }
                return try await group.reduce(into: [Int]()) { $0.append($1) }
            }
            #expect(results.count { $0 == 0 } == 1)
            #expect(results.count { $0 == Schema.newest } == 7)
        }
    }
}
