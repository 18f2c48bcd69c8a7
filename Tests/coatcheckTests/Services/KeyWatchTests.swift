import Broker
import BrokerTestSupport
import BrokerVault
import Foundation
import Testing

@testable import coatcheck

@Suite("The key ring of a running broker", .timeLimit(.minutes(1)))
struct KeyWatchTests {
    /// A watched key file in a new folder, with a clock and a log.
    private final class Watched: Sendable {
        let folder: String
        let file: String
        let vault: OpenSSLVault
        let watch: KeyWatch
        /// The ring that the file has at first.
        let first: KeyRing
        let lines: WrittenLines
        let time: TestClock

        init(linked: Bool = false) throws {
            let folder = NSTemporaryDirectory() + "coatcheck-" + UUID().uuidString
            try FileManager.default.createDirectory(
                atPath: folder + "/..1", withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
            let (time, lines) = (TestClock(WallTime(seconds: 1_795_000_000)), WrittenLines())
            let ring = try KeyRing.generate(now: time.now, random: SystemRandom.bytes)
            let file = folder + "/keys.json"
            if linked {
                // The layout of a Secret that Kubernetes mounts: keys.json -> ..data/keys.json, ..data -> ..1
                try Self.write(ring, folder + "/..1/keys.json")
                try FileManager.default.createSymbolicLink(atPath: folder + "/..data", withDestinationPath: "..1")
                try FileManager.default.createSymbolicLink(atPath: file, withDestinationPath: "..data/keys.json")
            } else {
                try Self.write(ring, file)
            }
            let vault = try OpenSSLVault(ring: ring, at: time.now)
            self.folder = folder
            self.file = file
            first = ring
            (self.time, self.lines, self.vault) = (time, lines, vault)
            watch = KeyWatch(
                .file(file), try KeyRingFile.bytes(.file(file)), ring, vault, now: { time.now },
                log: ProcessLog(level: .info, now: { time.now }, emit: { lines.add($0) }))
        }

        deinit { try? FileManager.default.removeItem(atPath: folder) }

        static func write(_ ring: KeyRing, _ path: String) throws {
            try Data(ring.json().bytes()).write(to: URL(fileURLWithPath: path))
        }
    }

    @Test(
        "The key file is truncated, another ring's or gone → one log line, and the keys stay; a good file follows → used"
    )
    func faulty() throws {
        let watched = try Watched()
        let key = watched.vault.currentKeyID
        let rotated = try watched.watch.ring.rotated(now: watched.time.now, random: SystemRandom.bytes)
        let other = try KeyRing.generate(now: watched.time.now, random: SystemRandom.bytes)
        let half = Data(rotated.json().bytes().prefix(60))
        for content in [half, Data(), Data(other.json().bytes())] {
            try content.write(to: URL(fileURLWithPath: watched.file))
            for _ in 0..<3 { watched.watch.look() }
            #expect(watched.vault.currentKeyID == key)
        }
        try FileManager.default.removeItem(atPath: watched.file)
        for _ in 0..<3 { watched.watch.look() }
        #expect(watched.lines.all.split(separator: "\n").count == 1, "\(watched.lines.all)")
        #expect(watched.lines.all.contains("keys not reloaded"))
        try Watched.write(rotated, watched.file)
        watched.watch.look()
        #expect(watched.vault.currentKeyID == rotated.list.first?.id)
        #expect(watched.lines.all.contains("keys reloaded"))
    }

    @Test(
        "The key file gets a key that is to seal from a later time → the key opens records at once, and seals from that time on"
    )
    func twoSteps() throws {
        let watched = try Watched()
        let key = watched.vault.currentKeyID
        let now = watched.time.now
        let rotated = try watched.watch.ring.rotated(
            now: now, sealsFrom: now.advanced(by: .seconds(600)), random: SystemRandom.bytes)
        let new = try #require(rotated.list.first?.id)
        watched.watch.look()
        #expect(!watched.vault.hasKey(new))
        #expect(watched.lines.all.isEmpty)
        try Watched.write(rotated, watched.file)
        watched.watch.look()
        #expect(watched.vault.hasKey(new) && watched.vault.currentKeyID == key)
        watched.time.advance(.seconds(599))
        watched.watch.look()
        #expect(watched.vault.currentKeyID == key)
        watched.time.advance(.seconds(1))
        watched.watch.look()
        #expect(watched.vault.currentKeyID == new)
        watched.watch.look()
        #expect(watched.lines.all.split(separator: "\n").count == 2)
    }

    /// The fault of the key file while a key waits for its start time: the file is gone or truncated, before this time or at
    /// it.
    enum Trouble: CaseIterable { case awayBefore, halfBefore, away, half }

    @Test(
        "A loaded key is to seal from a later time, and the key file is then lost or truncated → the key still seals from then",
        arguments: Trouble.allCases)
    func dueInTrouble(_ trouble: Trouble) throws {
        let watched = try Watched()
        let now = watched.time.now
        let rotated = try watched.watch.ring.rotated(
            now: now, sealsFrom: now.advanced(by: .seconds(600)), random: SystemRandom.bytes)
        try Watched.write(rotated, watched.file)
        watched.watch.look()
        watched.time.advance(.seconds(300))
        switch trouble {
        case .awayBefore, .away: try FileManager.default.removeItem(atPath: watched.file)
        case .halfBefore, .half:
            try Data(rotated.json().bytes().prefix(60)).write(to: URL(fileURLWithPath: watched.file))
        }
        watched.watch.look()
        if trouble == .awayBefore || trouble == .halfBefore {
            try Watched.write(rotated, watched.file)
            watched.watch.look()
        }
        watched.time.advance(.seconds(299))
        watched.watch.look()
        #expect(watched.vault.currentKeyID != rotated.list.first?.id)
        watched.time.advance(.seconds(1))
        watched.watch.look()
        #expect(watched.vault.currentKeyID == rotated.list.first?.id)
        // After the file was good again, a new fault of the file is logged again.
        try Watched.write(rotated, watched.file)
        watched.watch.look()
        try FileManager.default.removeItem(atPath: watched.file)
        watched.watch.look()
        #expect(watched.lines.all.split(separator: "\n").count { $0.contains("keys not reloaded") } == 2)
    }

    @Test(
        "A loaded key is to seal from a later time, and reading the key file then hangs → the key still seals from then"
    )
    func hanging() throws {
        let watched = try Watched()
        let rotated = try watched.watch.ring.rotated(
            now: watched.time.now, sealsFrom: watched.time.now.advanced(by: .seconds(600)),
            random: SystemRandom.bytes)
        try Watched.write(rotated, watched.file)
        watched.watch.look()
        let new = try #require(rotated.list.first?.id)
        watched.time.advance(.seconds(599))
        watched.watch.lookAtTime()
        #expect(watched.vault.currentKeyID != new)
        watched.time.advance(.seconds(1))
        watched.watch.lookAtTime()
        #expect(watched.vault.currentKeyID == new)
    }

    @Test("Kubernetes exchanges the link of a mounted Secret → the key file is read again")
    func links() throws {
        let watched = try Watched(linked: true)
        let rotated = try watched.watch.ring.rotated(now: watched.time.now, random: SystemRandom.bytes)
        let folder = watched.folder
        try FileManager.default.createDirectory(atPath: folder + "/..2", withIntermediateDirectories: true)
        try Watched.write(rotated, folder + "/..2/keys.json")
        try FileManager.default.createSymbolicLink(atPath: folder + "/..data_tmp", withDestinationPath: "..2")
        watched.watch.look()
        #expect(watched.lines.all.isEmpty)
        #expect(rename(folder + "/..data_tmp", folder + "/..data") == 0)
        try FileManager.default.removeItem(atPath: folder + "/..1")
        watched.watch.look()
        #expect(watched.vault.currentKeyID == rotated.list.first?.id)
    }

    @Test(
        "A key file is accessible to others, even through a link → counts as open to others; readable for its group → does not"
    )
    func modes() throws {
        let folder = NSTemporaryDirectory() + "coatcheck-" + UUID().uuidString
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let (file, link) = (folder + "/keys.json", folder + "/link")
        try Data("x".utf8).write(to: URL(fileURLWithPath: file))
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: "keys.json")
        let cases: [(mode_t, Bool)] = [
            (0o604, true), (0o602, true), (0o601, true), (0o620, true), (0o610, true), (0o660, true), (0o644, true),
            (0o640, false), (0o440, false), (0o600, false), (0o400, false),
        ]
        for (mode, isOpen) in cases {
            chmod(file, mode)
            #expect(FileMode.isOpenToOthers(file) == isOpen, "\(String(mode, radix: 8))")
            #expect(FileMode.isOpenToOthers(link) == isOpen)
        }
        // Only root can give the file to another group. For such a file, even read permission of the group makes it open to
        // others.
        if geteuid() == 0, chown(file, 0, 54_321) == 0 {
            chmod(file, 0o640)
            #expect(FileMode.isOpenToOthers(file))
            chmod(file, 0o600)
            #expect(!FileMode.isOpenToOthers(file))
        }
    }

    @Test(
        "The key ring opens no record of the store → the check fails; it opens 19 of 20 → the check succeeds, with a log line"
    )
    func ringCheck() async throws {
        let now = WallTime(seconds: 1_795_000_000)
        let ring = try KeyRing.generate(now: now, random: SystemRandom.bytes)
        let (vault, stranger) = (
            try OpenSSLVault(ring: ring),
            try OpenSSLVault(ring: KeyRing.generate(now: now, random: SystemRandom.bytes))
        )
        let store = InMemoryStore()
        let lines = WrittenLines()
        let log = ProcessLog(level: .info, now: { now }, emit: { lines.add($0) })
        func keys(_ vault: OpenSSLVault) -> KeyWatch {
            KeyWatch(.file("/nowhere"), [], ring, vault, now: { now }, log: log)
        }
        let watch = RingWatch(stranger, keys(stranger), store, now: { now }, log: log)
        await watch.look()
        #expect(watch.isGood, "an empty store fits any ring")
        func add(_ count: Int, _ vault: OpenSSLVault) async throws {
            for _ in 0..<count {
                let row = vault.digest(try vault.random(32))
                try await store.addOutbox([
                    OutboxRow(
                        id: row, boundTo: row, tokens: try vault.seal([1, 2, 3], as: .tokens, row: row), createdAt: now,
                        nextAttemptAt: now)
                ])
            }
        }
        try await add(1, vault)
        await watch.look()
        await watch.look()
        #expect(!watch.isGood)
        #expect(lines.all.split(separator: "\n").count == 1 && lines.all.contains(vault.currentKeyID), "\(lines.all)")
        let right = RingWatch(vault, keys(vault), store, now: { now }, log: log)
        await right.look()
        #expect(right.isGood)
        // If another ring sealed one record in twenty, the broker still serves requests.
        try await add(18, vault)
        try await add(1, stranger)
        await right.look()
        #expect(right.isGood && lines.all.contains("some rows do not open"))
        try await add(4, stranger)
        let check = try await RingCheck.run(store, vault)
        #expect(check.tried == 20)
    }

    @Test(
        "The key ring opens none of the store's records → it seals no record, until a key file with the right ring replaces it"
    )
    func takenWhole() async throws {
        let watched = try Watched()
        let (time, store) = (watched.time, InMemoryStore())
        let log = ProcessLog(level: .info, now: { time.now }, emit: { [lines = watched.lines] in lines.add($0) })
        let right = try KeyRing.generate(now: time.now, random: SystemRandom.bytes)
        let owner = try OpenSSLVault(ring: right)
        let mixed = InMemoryStore()
        func add(_ count: Int, _ vault: OpenSSLVault, to store: InMemoryStore) async throws {
            for _ in 0..<count {
                let row = vault.digest(try vault.random(32))
                try await store.addOutbox([
                    OutboxRow(
                        id: row, boundTo: row, tokens: try vault.seal([1, 2, 3], as: .tokens, row: row),
                        createdAt: time.now, nextAttemptAt: time.now)
                ])
            }
        }
        let ring = RingWatch(watched.vault, watched.watch, store, now: { time.now }, log: log)
        await ring.look()
        #expect(watched.vault.isTheStores, "an empty store fits any ring")
        let stranger = watched.vault.currentKeyID
        try await add(3, watched.vault, to: mixed)
        try await add(9, owner, to: mixed)
        let between = RingWatch(watched.vault, watched.watch, mixed, now: { time.now }, log: log)
        await between.look()
        #expect(
            !between.isGood && watched.vault.isTheStores, "the ring opens some records, so the store may be its own")
        try await add(9, owner, to: store)
        await ring.look()
        #expect(!ring.isGood && !watched.vault.isTheStores)

        // A third ring that opens no record is rejected, too.
        try Watched.write(KeyRing.generate(now: time.now, random: SystemRandom.bytes), watched.file)
        watched.watch.look()
        await ring.look()
        #expect(watched.vault.currentKeyID == stranger)
        try Watched.write(right, watched.file)
        watched.watch.look()
        #expect(watched.vault.currentKeyID == stranger, "the ring changes only after it was compared with the store")
        await ring.look()
        #expect(watched.vault.currentKeyID == owner.currentKeyID)
        #expect(ring.isGood && watched.vault.isTheStores)
        #expect(
            watched.vault.index(.subject, ["a"]) == owner.index(.subject, ["a"]), "the right ring's index key is in use"
        )
        #expect(watched.watch.ring.list.map(\.id) == right.list.map(\.id))

        // Four records of the file's first ring do not open, and the log reports them. The broker serves all other records,
        // also after a restart.
        let other = try OpenSSLVault(ring: watched.first)
        try await add(4, other, to: store)
        await ring.look()
        #expect(ring.isGood, "\(ring.description)")
        #expect(ring.foreign?.contains("4 were sealed while another ring stood in its place (\(stranger))") == true)
        #expect(watched.lines.all.contains("some rows do not open"))
        let next = RingWatch(owner, watched.watch, store, now: { time.now }, log: log)
        await next.look()
        #expect(next.isGood && next.foreign != nil)
        // Four records of a third, unknown ring count as unreadable. With so many of them, the broker's ring is no longer good.
        let lost = try KeyRing.generate(now: time.now, random: SystemRandom.bytes)
        try await add(4, OpenSSLVault(ring: lost), to: store)
        await next.look()
        #expect(!next.isGood)
    }
}
