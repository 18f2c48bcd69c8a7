import Broker
import BrokerStore
import Foundation
import Testing

@Suite("SQLite: the store's files and their access rights", .serialized, .timeLimit(.minutes(2)))
struct DatabaseFileTests {
    @Test("A database is made under umask 0 → other users have no access to its directory and files (SEC-51)")
    func modes() async throws {
        let previous = umask(0)
        defer { umask(previous) }
        try await TemporaryStore.with { store, path in
            for _ in 0..<20 { try await store.signIn(Rows.session()) }
            let directory = (path as NSString).deletingLastPathComponent
            #expect(try TemporaryStore.mode(directory) == 0o700)
            let names = try FileManager.default.contentsOfDirectory(atPath: directory)
            let suffixes = ["", "-wal", "-shm", ".lock", ".reserve"]
            #expect(Set(names) == Set(suffixes.map { "coatcheck.db" + $0 }))
            for name in names { #expect(try TemporaryStore.mode(directory + "/" + name) == 0o600, "\(name)") }
            let copy = directory + "/backup.db"
            try await store.backUp(to: copy)
            #expect(try TemporaryStore.mode(copy) == 0o600)
        }
    }

    @Test("Other users have access to the database file and its own directory → the start removes this access (SEC-51)")
    func tightened() async throws {
        try await TemporaryStore.withDirectory { directory in
            let path = directory + "/own/coatcheck.db"
            let store = try await SQLiteStore.open(path: path)
            await store.close()
            for name in [directory + "/own", path] { chmod(name, name == path ? 0o666 : 0o777) }
            let again = try await reopen(path)
            #expect(try TemporaryStore.mode(path) == 0o600)
            #expect(try TemporaryStore.mode(directory + "/own") == 0o700)
            await again.close()
        }
    }

    private func reopen(_ path: String) async throws -> SQLiteStore { try await SQLiteStore.open(path: path) }

    @Test(
        "The database's directory has other files, and other users may write to it → refused; may only read it → its mode stays"
    )
    func sharedDirectory() async throws {
        try await TemporaryStore.withDirectory { directory in
            try Data("x".utf8).write(to: URL(fileURLWithPath: directory + "/neighbour"))
            chmod(directory, 0o777)
            await #expect(throws: StoreOpenFailure.looseDirectory(directory)) {
                try await SQLiteStore.open(path: directory + "/coatcheck.db")
            }
            chmod(directory, 0o755)
            let store = try await SQLiteStore.open(path: directory + "/coatcheck.db")
            #expect(try TemporaryStore.mode(directory) == 0o755)
            #expect(try TemporaryStore.mode(directory + "/coatcheck.db") == 0o600)
            await store.close()
        }
    }

    @Test(
        "A second store opens the database → refused with a message; after the first store is closed → opens (SEC-127)")
    func locked() async throws {
        try await TemporaryStore.withDirectory { directory in
            let path = directory + "/coatcheck.db"
            do {
                let store = try await SQLiteStore.open(path: path)
                let error = await #expect(throws: StoreOpenFailure.locked(path)) {
                    try await SQLiteStore.open(path: path)
                }
                #expect("\(String(describing: error))".contains("PostgreSQL"))
                await store.close()
            }
            let again = try await SQLiteStore.open(path: path)
            await again.close()
        }
    }

    @Test("The database's path is a symbolic link, a directory, a text file or in a missing directory → refused")
    func foreignFiles() async throws {
        try await TemporaryStore.withDirectory { directory in
            let target = directory + "/target.db"
            try Data().write(to: URL(fileURLWithPath: target))
            let link = directory + "/link.db"
            try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: target)
            await #expect(throws: StoreOpenFailure.foreignFile(link)) { try await SQLiteStore.open(path: link) }
            let folder = directory + "/folder.db"
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
            await #expect(throws: StoreOpenFailure.foreignFile(folder)) { try await SQLiteStore.open(path: folder) }
            let text = directory + "/text.db"
            try Data(String(repeating: "not a database\n", count: 400).utf8).write(to: URL(fileURLWithPath: text))
            await #expect(throws: StoreOpenFailure.notOurs(text)) { try await SQLiteStore.open(path: text) }
            #expect(try Data(contentsOf: URL(fileURLWithPath: text)).count == 6000)
            await #expect(throws: StoreOpenFailure.self) {
                try await SQLiteStore.open(path: directory + "/missing/deeper/coatcheck.db")
            }
        }
    }

    @Test("A write has been answered → a copy of the database's files at this moment has the write (guarantee 4)")
    func durable() async throws {
        try await TemporaryStore.with { store, path in
            let session = Rows.session()
            try await store.signIn(session)
            try await TemporaryStore.withDirectory { directory in
                // Copy the database and its log, which are what remains if the process dies now. The process's memory is not in
                // the copy.
                for suffix in ["", "-wal"] {
                    try FileManager.default.copyItem(atPath: path + suffix, toPath: directory + "/copy.db" + suffix)
                }
                let copy = try await SQLiteStore.open(path: directory + "/copy.db")
                #expect(try await copy.session(tokenDigest: session.tokenDigest) == session)
                await copy.close()
            }
            #expect(try await store.setting(.synchronous) == 2)
            #expect(try await store.setting(.secureDelete) == 1)
        }
    }

    @Test("A backup → opens as a database that has the session; a second backup to the same file → refused")
    func backup() async throws {
        try await TemporaryStore.with { store, path in
            let session = Rows.session()
            try await store.signIn(session)
            let copyPath = path + ".backup"
            try await store.backUp(to: copyPath)
            await #expect(throws: StoreOpenFailure.self) { try await store.backUp(to: copyPath) }
            let copy = try await SQLiteStore.open(path: copyPath)
            #expect(try await copy.session(tokenDigest: session.tokenDigest) == session)
            await copy.close()
        }
    }

    @Test("Ended sessions are revoked and swept → no file contains bytes of their tokens (SEC-51)")
    func erased() async throws {
        try await TemporaryStore.with { store, path in
            let canary = "CANARY-"
            func text(_ index: Int, _ name: String) -> String {
                "\(canary)\(name)-\(index)-" + String(repeating: canary, count: 10 + index % 7 * 60)
            }
            var sessions: [SessionRow] = []
            for index in 0..<150 {
                let session = Rows.session(tokens: text(index, "first"))
                try await store.signIn(session)
                sessions.append(session)
                #expect(try await store.commit(session.tokenDigest, version: 1, text(index, "second")) == .committed)
            }
            let before = try TemporaryStore.contents(of: path)
            #expect(before.values.contains { $0.range(of: Data(canary.utf8)) != nil })
            for session in sessions.shuffled() {
                _ = try await store.endSessions(.token(session.tokenDigest), reason: .loggedOut, now: Rows.now)
            }
            while true {
                let work = try await store.takeOutbox(now: Rows.now, until: Rows.seconds(60), limit: 40)
                if work.isEmpty { break }
                for row in work.shuffled() { try await store.removeOutbox(row.id) }
            }
            _ = try await store.sweep(now: Rows.now, limit: 1000, lapsedSince: Rows.now)
            for (name, data) in try TemporaryStore.contents(of: path) {
                #expect(data.range(of: Data(canary.utf8)) == nil, "\(name)")
                if name.hasSuffix("-wal") { #expect(data.isEmpty) }
            }
        }
    }
}
