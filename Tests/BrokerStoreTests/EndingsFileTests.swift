import Broker
import BrokerTestSupport
import Foundation
import Synchronization
import Testing

@testable import BrokerStore

@Suite("SQLite: the endings file", .timeLimit(.minutes(2)))
struct EndingsFileTests {
    private static let life = Duration.seconds(90 * 86_400)

    /// The paths of a store and its endings file in one directory, and the opening of that store.
    private struct Place {
        let directory: String
        var database: String { directory + "/data/coatcheck.db" }
        var file: String { directory + "/endings/endings" }

        init(_ directory: String) throws {
            self.directory = directory
            try FileManager.default.createDirectory(
                atPath: directory + "/endings", withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700])
        }

        func open(
            life: Duration = EndingsFileTests.life, now: WallTime = Rows.now,
            step: @escaping @Sendable (EndingsStep) -> Void = { _ in }
        ) async throws -> SQLiteStore {
            try await SQLiteStore.open(
                path: database, reserve: 0, endings: EndingsPlace(path: file, longestLifetime: life, now: now),
                step: step)
        }

        var entries: [EndingEntry] {
            get throws {
                var entries: [EndingEntry] = []
                _ = try EndingsFile.read(file) { entries.append($0) }
                return entries
            }
        }

        var summary: EndingsSummary { get throws { try EndingsFile.read(file) { _ in } } }
    }

    private func with(_ body: (Place) async throws -> Void) async throws {
        try await TemporaryStore.withDirectory { try await body(Place($0)) }
    }

    private func logOut(_ row: SessionRow, _ store: SQLiteStore, at time: WallTime = Rows.seconds(9)) async throws
        -> EndedBatch
    {
        try await store.endSessions(.token(row.tokenDigest), reason: .loggedOut, now: time, limit: 9)
    }

    // MARK: Refusals

    @Test("The endings file is of another kind or a link, or its folder is missing → the store does not open")
    func foreign() async throws {
        try await with { place in
            func refused(_ sentence: String) async {
                await #expect(throws: StoreOpenFailure.self, "\(sentence)") { _ = try await place.open() }
            }
            let url = URL(fileURLWithPath: place.file)
            for text in ["", "no line", "other text\n", "coatcheck-endings 1 0 1 00000000\n"] {
                try Data(text.utf8).write(to: url)
                await refused(text)
                #expect(try Data(contentsOf: url) == Data(text.utf8), "the refused file is unchanged")
            }
            try Data(repeating: 7, count: 1 << 20).write(to: url)
            await refused("noise")
            try FileManager.default.removeItem(at: url)
            try FileManager.default.createSymbolicLink(atPath: place.file, withDestinationPath: "/dev/null")
            await refused("a link")
            try FileManager.default.removeItem(atPath: place.directory + "/endings")
            await refused("no folder")
        }
    }

    @Test("A second process opens the endings file, with any database → refused (SEC-127)")
    func locked() async throws {
        try await with { place in
            let store = try await place.open()
            await #expect(throws: StoreOpenFailure.locked(place.file)) {
                _ = try await SQLiteStore.open(
                    path: place.directory + "/other/coatcheck.db", reserve: 0,
                    endings: EndingsPlace(path: place.file, longestLifetime: Self.life, now: Rows.now))
            }
            #expect(throws: StoreOpenFailure.locked(place.file)) { _ = try place.summary }
            await store.close()
            #expect(try place.summary.since == Rows.now)
            #expect(try TemporaryStore.mode(place.file) == 0o600)
        }
    }

    // MARK: Contents

    @Test(
        "A user, operator or provider ends a session → the endings file has the session's digest, the time and the reason"
    )
    func everyWay() async throws {
        try await with { place in
            let store = try await place.open()
            let rows = (0..<6).map { _ in Rows.session() }
            for row in rows.prefix(5) { try await store.signIn(row) }
            #expect(try await logOut(rows[0], store) == EndedBatch(ended: [rows[0].tokenDigest], more: false))
            let selector = SessionSelector.subject(rows[1].subject)
            _ = try await store.endSessions(selector, reason: .admin, now: Rows.seconds(10), limit: 9)
            let told = try await store.consumeLogoutToken(
                Rows.digest(), until: Rows.seconds(900),
                ending: .logout(sid: nil, subject: rows[2].subject, clients: [rows[2].client]), now: Rows.seconds(11),
                limit: 9)
            #expect(told == .ended(EndedBatch(ended: [rows[2].tokenDigest], more: false)))
            guard case .claimed(let claim) = try await store.claimRefresh(rows[3].tokenDigest) else {
                return #expect(Bool(false), "claimed")
            }
            #expect(
                try await store.condemnRefresh(
                    tokenDigest: rows[3].tokenDigest, tokenVersion: 1, fence: claim.fence, reason: .grantRevoked,
                    now: Rows.seconds(12)))
            try await store.signIn(rows[5], replacing: rows[4].tokenDigest)
            await store.close()
            let expected = [
                EndingEntry(tokenDigest: rows[0].tokenDigest, at: Rows.seconds(9), reason: .loggedOut),
                EndingEntry(tokenDigest: rows[1].tokenDigest, at: Rows.seconds(10), reason: .admin),
                EndingEntry(tokenDigest: rows[2].tokenDigest, at: Rows.seconds(11), reason: .providerLogout),
                EndingEntry(tokenDigest: rows[3].tokenDigest, at: Rows.seconds(12), reason: .grantRevoked),
                EndingEntry(tokenDigest: rows[4].tokenDigest, at: rows[5].createdAt, reason: .replaced),
            ]
            #expect(try place.entries == expected)
            let text = String(decoding: try Data(contentsOf: URL(fileURLWithPath: place.file)), as: UTF8.self)
            for row in rows { #expect(!text.contains(row.handle.text)) }
        }
    }

    @Test("200 endings at the same time → fewer than ten syncs write all of them")
    func together() async throws {
        try await with { place in
            let noted = Atomic<Int>(0)
            let syncs = Atomic<Int>(0)
            let held = DispatchSemaphore(value: 0)
            let store = try await place.open { step in
                if step == .noted { noted.add(1, ordering: .relaxed) }
                // The first sync is held until all endings have been noted.
                if step == .written { held.wait() }
                if step == .synced { syncs.add(1, ordering: .relaxed) }
            }
            let rows = (0..<200).map { _ in Rows.session() }
            for row in rows { try await store.signIn(row) }
            try await withThrowingTaskGroup(of: Void.self) { group in
                for row in rows {
                    group.addTask {
                        let ended = try await logOut(row, store)
                        #expect(ended.isWritten)
                    }
                }
                try await eventually("200 endings wait for their sync") { noted.load(ordering: .relaxed) >= 200 }
                for _ in 0..<200 { held.signal() }
                try await group.waitForAll()
            }
            await store.close()
            #expect(try place.summary.entries == 200)
            let count = syncs.load(ordering: .relaxed)
            print("200 endings at once: \(count) syncs of the endings file")
            #expect(count < 10)
        }
    }

    // MARK: The file's disk

    @Test(
        "The endings file disappears → sessions end, reported as \"not written\"; the file is back → these endings are written"
    )
    func gone() async throws {
        try await with { place in
            let store = try await place.open()
            let rows = (0..<3).map { _ in Rows.session() }
            for row in rows { try await store.signIn(row) }
            try FileManager.default.moveItem(atPath: place.directory + "/endings", toPath: place.directory + "/away")
            // The endings file's volume is gone, and an empty folder is in its place. The store makes no file in this folder.
            try FileManager.default.createDirectory(
                atPath: place.directory + "/endings", withIntermediateDirectories: false)
            let first = try await logOut(rows[0], store)
            #expect(first == EndedBatch(ended: [rows[0].tokenDigest], more: false, isWritten: false))
            #expect(try await store.session(tokenDigest: rows[0].tokenDigest)?.endReason == .loggedOut)
            #expect(store.unkeptEndings.count == 1 && store.unkeptEndings.reason == "the file is gone")
            #expect(try await logOut(rows[0], store) == EndedBatch(ended: [], more: false, isWritten: false))
            let subject = try await store.endSessions(
                .subject(rows[1].subject), reason: .admin, now: Rows.seconds(9), limit: 9)
            #expect(subject == EndedBatch(ended: [rows[1].tokenDigest], more: false, isWritten: false))
            // Logins still work.
            try await store.signIn(Rows.session())
            #expect(try FileManager.default.contentsOfDirectory(atPath: place.directory + "/endings").isEmpty)
            try FileManager.default.removeItem(atPath: place.directory + "/endings")
            try FileManager.default.moveItem(atPath: place.directory + "/away", toPath: place.directory + "/endings")
            try await eventually("every ending is in the file") { store.unkeptEndings.count == 0 }
            #expect(try await logOut(rows[0], store) == EndedBatch(ended: [], more: false))
            #expect(try await logOut(rows[2], store).isWritten)
            await store.close()
            #expect(try place.entries.map(\.tokenDigest) == rows.map(\.tokenDigest))
        }
    }

    @Test(
        "Another file replaces the endings file → endings count as unwritten; after a restart → the other file gets them"
    )
    func another() async throws {
        try await with { place in
            let first = try await place.open()
            await first.close()
            try FileManager.default.moveItem(atPath: place.directory + "/endings", toPath: place.directory + "/volume")
            try FileManager.default.createDirectory(
                atPath: place.directory + "/endings", withIntermediateDirectories: false,
                attributes: [.posixPermissions: 0o700])
            // The endings file's volume is missing when the store starts, so the store makes a file in the empty mount point.
            let store = try await place.open(now: Rows.seconds(5))
            let rows = [Rows.session(), Rows.session()]
            for row in rows { try await store.signIn(row) }
            #expect(try await logOut(rows[0], store).isWritten)
            try FileManager.default.moveItem(atPath: place.directory + "/endings", toPath: place.directory + "/folder")
            try FileManager.default.moveItem(atPath: place.directory + "/volume", toPath: place.directory + "/endings")
            #expect(try await !logOut(rows[1], store).isWritten)
            #expect(store.unkeptEndings.reason?.contains("another file") == true)
            await store.close()
            #expect(try place.summary.entries == 0)
            let again = try await place.open()
            #expect(try await logOut(rows[1], again).isWritten)
            await again.close()
            #expect(Set(try place.entries.map(\.tokenDigest)) == Set(rows.map(\.tokenDigest)))
        }
    }

    @Test("The provider repeats a logout token that was answered with \"not written\" → not treated as a replay")
    func noticeAgain() async throws {
        try await with { place in
            let store = try await place.open()
            let row = Rows.session()
            try await store.signIn(row)
            let id = Rows.digest()
            func consume() async throws -> LogoutTokenResult {
                try await store.consumeLogoutToken(
                    id, until: Rows.seconds(900),
                    ending: .logout(sid: nil, subject: row.subject, clients: [row.client]), now: Rows.seconds(11),
                    limit: 9)
            }
            try FileManager.default.moveItem(atPath: place.file, toPath: place.file + ".away")
            #expect(try await consume() == .ended(EndedBatch(ended: [row.tokenDigest], more: false, isWritten: false)))
            #expect(try await consume() == .ended(EndedBatch(ended: [], more: false, isWritten: false)))
            try FileManager.default.moveItem(atPath: place.file + ".away", toPath: place.file)
            try await eventually("every ending is in the file") { store.unkeptEndings.count == 0 }
            #expect(try await consume() == .ended(EndedBatch(ended: [], more: false)))
            #expect(try await consume() == .replayed)
            await store.close()
        }
    }

    @Test("A caller waits for its ending to be written → it does not wait for later endings")
    func steadily() async throws {
        try await with { place in
            let noted = Atomic<Int>(0)
            let held = DispatchSemaphore(value: 0)
            let store = try await place.open { step in
                if step == .noted { noted.add(1, ordering: .relaxed) }
                if step == .written { held.wait() }
            }
            let rows = (0..<3).map { _ in Rows.session() }
            for row in rows { try await store.signIn(row) }
            let first = Task {
                try await store.endSessions(
                    .subject(rows[0].subject), reason: .admin, now: Rows.seconds(9), limit: 9)
            }
            try await eventually("1 endings wait for their sync") { noted.load(ordering: .relaxed) >= 1 }
            let second = Task { try await logOut(rows[1], store) }
            try await eventually("2 endings wait for their sync") { noted.load(ordering: .relaxed) >= 2 }
            // The first sync ends. The second sync is held until the first caller has its answer.
            held.signal()
            #expect(try await first.value.isWritten)
            held.signal()
            #expect(try await second.value.isWritten)
            held.signal()
            await store.close()
        }
    }

    @Test("A reload raises the longest lifetime of sessions → the endings file records this lifetime")
    func longerLife() async throws {
        try await with { place in
            let store = try await place.open()
            store.adopt(longestLifetime: Self.life + Self.life)
            store.adopt(longestLifetime: .seconds(60))
            let row = Rows.session()
            try await store.signIn(row)
            #expect(try await logOut(row, store).isWritten)
            await store.close()
            #expect(try place.summary.longestLifetime == Self.life + Self.life)
            #expect(try place.entries.map(\.tokenDigest) == [row.tokenDigest])
        }
    }

    // MARK: Crashes

    @Test(
        "A crash at any step of an ending → the endings file has all answered endings, and gets the others at the next start"
    )
    func crashes() async throws {
        try await with { place in
            let rows = [Rows.session(), Rows.session()]
            let images = Mutex<[EndingsStep: Place]>([:])
            let armed = Atomic<Bool>(false)
            // At each step of the store's work, the test copies the files, as a crash at this step would leave them.
            let store = try await place.open { step in
                guard armed.load(ordering: .acquiring) else { return }
                let copy = place.directory + "/crash-\(step)"
                guard
                    (try? FileManager.default.createDirectory(atPath: copy, withIntermediateDirectories: false)) != nil
                else { return }
                for folder in ["data", "endings"] {
                    try? FileManager.default.copyItem(
                        atPath: "\(place.directory)/\(folder)", toPath: "\(copy)/\(folder)")
                }
                images.withLock { $0[step] = try? Place(copy) }
            }
            for row in rows { try await store.signIn(row) }
            #expect(try await logOut(rows[0], store).isWritten)
            armed.store(true, ordering: .releasing)
            #expect(try await logOut(rows[1], store).isWritten)
            armed.store(false, ordering: .releasing)
            await store.close()
            let taken = images.withLock { $0 }
            #expect(Set(taken.keys) == [.noted, .written, .synced])
            for (step, image) in taken {
                #expect(
                    try image.entries.first?.tokenDigest == rows[0].tokenDigest,
                    "\(step): the answered ending is in the file")
                let again = try await image.open(now: Rows.seconds(60))
                #expect(try await again.session(tokenDigest: rows[1].tokenDigest)?.endReason == .loggedOut, "\(step)")
                // The client got no answer before the crash, so it repeats the log-out. The answer now promises that the ending
                // is in the file.
                #expect(try await logOut(rows[1], again).isWritten, "\(step)")
                await again.close()
                #expect(try image.entries.map(\.tokenDigest) == rows.map(\.tokenDigest), "\(step)")
                #expect(try image.summary.since == Rows.now, "\(step)")
            }
        }
    }

    @Test(
        "The endings file's last line is truncated → it is removed, and this ending is written again from the database")
    func torn() async throws {
        try await with { place in
            let store = try await place.open()
            let rows = [Rows.session(), Rows.session()]
            for row in rows { try await store.signIn(row) }
            _ = try await logOut(rows[0], store)
            let whole = try Data(contentsOf: URL(fileURLWithPath: place.file)).count
            _ = try await logOut(rows[1], store)
            await store.close()
            let full = try Data(contentsOf: URL(fileURLWithPath: place.file))
            for length in stride(from: whole, to: full.count, by: 7) {
                try full[..<length].write(to: URL(fileURLWithPath: place.file))
                #expect(try place.summary.damaged == 0 && place.summary.entries == 1)
                let again = try await place.open()
                let row = Rows.session()
                try await again.signIn(row)
                #expect(try await logOut(row, again).isWritten)
                await again.close()
                let tokens = try place.entries.map(\.tokenDigest)
                #expect(tokens.first == rows[0].tokenDigest && tokens.last == row.tokenDigest)
                #expect(tokens.count { $0 == rows[1].tokenDigest } == 1, "the ending from the database is written once")
                #expect(try place.summary.damaged == 0)
            }
        }
    }

    @Test("A damaged line in the middle of the endings file → counted, and ends no session")
    func damaged() async throws {
        try await with { place in
            let store = try await place.open()
            let rows = (0..<3).map { _ in Rows.session() }
            for row in rows { try await store.signIn(row) }
            for row in rows { _ = try await logOut(row, store) }
            await store.close()
            var bytes = [UInt8](try Data(contentsOf: URL(fileURLWithPath: place.file)))
            let lines = bytes.split(separator: 0x0A)
            bytes[lines[0].count + lines[1].count + 2 + 5] ^= 1
            try Data(bytes).write(to: URL(fileURLWithPath: place.file))
            #expect(try place.summary.damaged == 1)
            #expect(try place.entries.map(\.tokenDigest) == [rows[0].tokenDigest, rows[2].tokenDigest])
            let again = try await place.open()
            await again.close()
            #expect(
                try place.entries.map(\.tokenDigest) == [rows[0].tokenDigest, rows[2].tokenDigest, rows[1].tokenDigest])
        }
    }

    // MARK: Shortening

    @Test(
        "The endings file has grown → entries older than any session are removed, and no other is lost, even after a crash"
    )
    func shortening() async throws {
        try await with { place in
            let old = Rows.now.advanced(by: .zero - Self.life - Self.life)
            var text = EndingsHeader(since: old, longestLifetime: Self.life).line
            for _ in 0..<8000 { text += EndingEntry(tokenDigest: Rows.digest(), at: old, reason: .admin).line }
            let young = (0..<7900).map {
                EndingEntry(tokenDigest: Rows.digest(), at: Rows.seconds(Int64($0)), reason: .loggedOut)
            }
            for entry in young { text += entry.line }
            try Data(text.utf8).write(to: URL(fileURLWithPath: place.file))
            let images = Mutex<[EndingsStep: Place]>([:])
            let store = try await place.open { step in
                guard step == .rewritten || step == .renamed else { return }
                let copy = place.directory + "/crash-\(step)"
                try? FileManager.default.createDirectory(atPath: copy, withIntermediateDirectories: false)
                try? FileManager.default.copyItem(atPath: "\(place.directory)/endings", toPath: "\(copy)/endings")
                images.withLock { $0[step] = try? Place(copy) }
            }
            let row = Rows.session()
            try await store.signIn(row)
            // If everything is slow (under a sanitizer), the rewriting takes longer than an ending waits.
            let end = ContinuousClock.now + .seconds(90)
            var isWritten = try await logOut(row, store).isWritten
            while !isWritten, ContinuousClock.now < end {
                try await Task.sleep(for: .milliseconds(100))
                isWritten = try await logOut(row, store).isWritten
            }
            #expect(isWritten)
            await store.close()
            let last = EndingEntry(tokenDigest: row.tokenDigest, at: Rows.seconds(9), reason: .loggedOut)
            #expect(try place.entries == young + [last])
            #expect(try place.summary.since == old)
            let taken = images.withLock { $0 }
            #expect(try taken[.rewritten]?.entries.count == 15_901)
            #expect(try taken[.renamed]?.entries == young + [last])
            // A crash during the rewriting leaves a half-written file. At the next start, the store opens and removes this
            // file.
            if let image = taken[.rewritten] {
                #expect(FileManager.default.fileExists(atPath: image.file + ".rewriting"))
                let again = try await image.open(life: Self.life + Self.life)
                await again.close()
                #expect(try image.summary.longestLifetime == Self.life + Self.life)
                #expect(!FileManager.default.fileExists(atPath: image.file + ".rewriting"))
            }
        }
    }

    @Test("The clock is ten years ahead at one ending → the endings file keeps all endings")
    func wrongClock() async throws {
        try await with { place in
            var text = EndingsHeader(since: Rows.now, longestLifetime: Self.life).line
            let entries = (0..<16_000).map {
                EndingEntry(tokenDigest: Rows.digest(), at: Rows.seconds(Int64($0)), reason: .admin)
            }
            for entry in entries { text += entry.line }
            try Data(text.utf8).write(to: URL(fileURLWithPath: place.file))
            let store = try await place.open()
            let row = Rows.session()
            try await store.signIn(row)
            #expect(try await logOut(row, store, at: Rows.seconds(10 * 365 * 86_400)).isWritten)
            await store.close()
            #expect(try place.summary.entries == 16_001)
        }
    }

    @Test(
        "The store was closed for 31 days, longer than tombstones are kept → the endings file covers only the time from now on"
    )
    func neglected() async throws {
        try await with { place in
            let store = try await place.open()
            await store.close()
            let later = Rows.now.advanced(by: .seconds(31 * 86_400))
            let again = try await place.open(now: later)
            await again.close()
            #expect(try place.summary.since == later)
        }
    }

    // MARK: Restoring

    @Test(
        "A backup is restored with the endings file → sessions that ended since the backup end again; without it → they live"
    )
    func restoring() async throws {
        try await with { place in
            let store = try await place.open()
            let rows = (0..<4).map { _ in Rows.session(tokens: "secret tokens") }
            for row in rows { try await store.signIn(row) }
            let copy = place.directory + "/copy.db"
            try await store.backUp(to: copy)
            // The tokens of an exported session are in another system, so a restored backup must leave them valid.
            let claim = try await store.mustClaimRefresh(rows[3].tokenDigest)
            #expect(
                try await store.condemnRefresh(
                    tokenDigest: rows[3].tokenDigest, tokenVersion: 1, fence: claim.fence, reason: .exported,
                    now: Rows.seconds(5)))
            #expect(try await logOut(rows[0], store).isWritten)
            #expect(try await logOut(rows[1], store, at: Rows.seconds(20)).isWritten)
            await store.close()
            // Earlier releases know the reason of the row and the line, and read the line's time with its sign.
            let marked = EndingEntry(tokenDigest: rows[3].tokenDigest, at: Rows.seconds(5), reason: .exported).line
            let words = marked.split(separator: " ")
            #expect(words[1].first == "+" && Int64(words[1]) == Rows.seconds(5).milliseconds && words[2] == "admin")
            #expect(try String(contentsOfFile: place.file, encoding: .utf8).contains(marked))
            // Without the endings file, the sessions would be valid again.
            let bare = place.directory + "/bare/coatcheck.db"
            let without = try await SQLiteStore.restore(BackupFile(copy), to: bare, stamp: "1") { copy, summary in
                #expect(summary == nil)
                #expect(copy.lastMoment == Rows.now)
            }
            #expect(without.ended == nil)
            let revived = try await SQLiteStore.open(path: bare, reserve: 0)
            #expect(try await revived.session(tokenDigest: rows[0].tokenDigest) == rows[0])
            await revived.close()

            let restored = try await SQLiteStore.restore(
                BackupFile(copy), to: place.database, stamp: "1", endings: place.file
            ) {
                copy, summary in
                #expect(summary?.entries == 3)
                #expect(summary?.since == Rows.now && copy.sessions == 4)
            }
            #expect(restored.ended == 3)
            let names = try FileManager.default.contentsOfDirectory(atPath: place.directory + "/data")
            #expect(!names.contains { $0.contains("restoring") }, "\(names)")
            let again = try await place.open()
            #expect(try await again.session(tokenDigest: rows[0].tokenDigest)?.endReason == .loggedOut)
            #expect(try await again.session(tokenDigest: rows[1].tokenDigest)?.endedAt == Rows.seconds(20))
            #expect(try await again.session(tokenDigest: rows[2].tokenDigest) == rows[2])
            #expect(try await again.session(tokenDigest: rows[3].tokenDigest)?.endReason == .exported)
            // The tokens of the restored sessions are put into the outbox again, because a crash may have prevented their
            // revocation.
            #expect(try await again.outboxCount() == 2)
            await again.close()
            #expect(
                try place.entries.map(\.tokenDigest) == [rows[3].tokenDigest, rows[0].tokenDigest, rows[1].tokenDigest])
        }
    }
}
