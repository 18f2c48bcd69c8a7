import ArgumentParser
import BrokerVault
import Foundation
import Glibc
import Testing

@testable import coatcheck

@Suite("The command line", .timeLimit(.minutes(2)))
struct CommandTests {
    /// Makes a new folder that only its owner may enter.
    private func folder() throws -> String {
        let path = NSTemporaryDirectory() + "coatcheck-" + UUID().uuidString
        try FileManager.default.createDirectory(
            atPath: path, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        return path
    }

    private func run(_ arguments: [String]) async throws {
        var command = try Coatcheck.parseAsRoot(arguments)
        if var command = command as? any AsyncParsableCommand { try await command.run() } else { try command.run() }
    }

    @Test(
        "The program gets an unknown command, or a command without a required option → refused",
        arguments: [["dance"], ["serve"], ["check"], ["keys", "generate"], ["keys", "rotate"], ["migrate"]])
    func usage(_ arguments: [String]) { #expect(throws: (any Error).self) { try Coatcheck.parseAsRoot(arguments) } }

    @Test(
        "`keys generate` → makes a file with mode 0600; the file already exists → refused, and the file stays unchanged (SEC-51)"
    )
    func generate() async throws {
        let file = try folder() + "/keys.json"
        try await run(["keys", "generate", "--file", file])
        let first = try Data(contentsOf: URL(fileURLWithPath: file))
        let mode = try FileManager.default.attributesOfItem(atPath: file)[.posixPermissions] as? NSNumber
        #expect(mode?.intValue == 0o600)
        await #expect(throws: ExitCode(1)) { try await run(["keys", "generate", "--file", file]) }
        #expect(try Data(contentsOf: URL(fileURLWithPath: file)) == first)
    }

    @Test(
        "`keys rotate` → the new key comes first, and does not seal yet; with `--now` → the new key seals at once; old keys stay"
    )
    func rotate() async throws {
        let file = try folder() + "/keys.json"
        try await run(["keys", "generate", "--file", file])
        let before = try KeyRingFile.load(file).list
        #expect(throws: (any Error).self) {
            try Coatcheck.parseAsRoot(["keys", "rotate", "--file", file, "--after", "soon"])
        }
        let copy = file + ".copy"
        try FileManager.default.copyItem(atPath: file, toPath: copy)
        try await run(["keys", "rotate", "--file", copy])
        let waiting = try KeyRingFile.load(copy)
        #expect(waiting.sealingID(at: SystemClock.wallTime()) == before.first?.id)
        await #expect(throws: ExitCode(1)) { try await run(["keys", "rotate", "--file", copy]) }
        await #expect(throws: ExitCode(1)) { try await run(["keys", "rotate", "--now", "--file", copy]) }
        #expect(try KeyRingFile.load(copy).list == waiting.list)
        try await run(["keys", "rotate", "--now", "--file", file])
        let after = try KeyRingFile.load(file).list
        #expect(after.count == 2)
        #expect(after.last?.id == before.first?.id)
        #expect(after.first?.seals == true)
        let mode = try FileManager.default.attributesOfItem(atPath: file)[.posixPermissions] as? NSNumber
        #expect(mode?.intValue == 0o600)
    }

    @Test(
        "`keys list` or `keys rotate` with a malformed or missing key file → refused, and the file stays unchanged",
        arguments: ["", "{}", "not json", "{\"version\":2}"])
    func badKeys(_ content: String) async throws {
        let file = try folder() + "/keys.json"
        await #expect(throws: ExitCode(1)) { try await run(["keys", "list", "--file", file]) }
        try content.write(toFile: file, atomically: true, encoding: .utf8)
        await #expect(throws: ExitCode(1)) { try await run(["keys", "list", "--file", file]) }
        await #expect(throws: ExitCode(1)) { try await run(["keys", "rotate", "--file", file]) }
        #expect(try String(contentsOfFile: file, encoding: .utf8) == content)
    }

    @Test("`keys generate` for a link to a missing file → refused, and no file is made behind the link")
    func link() async throws {
        let folder = try folder()
        try FileManager.default.createSymbolicLink(
            atPath: folder + "/keys.json", withDestinationPath: folder + "/elsewhere")
        await #expect(throws: ExitCode(1)) { try await run(["keys", "generate", "--file", folder + "/keys.json"]) }
        #expect(!FileManager.default.fileExists(atPath: folder + "/elsewhere"))
    }

    @Test("`check` with a faulty configuration or key file → status 1; with good files → status 0 (SEC-109)")
    func check() async throws {
        let folder = try folder()
        try await run(["keys", "generate", "--file", folder + "/keys.json"])
        let file = folder + "/coatcheck.yaml"
        try ConfigurationFixture.minimal.write(toFile: file, atomically: true, encoding: .utf8)
        try await run(["check", "--config", file])
        // `check` refuses a key file that `serve` refuses.
        let keys = try Data(contentsOf: URL(filePath: folder + "/keys.json"))
        for content in ["", "{}", "not json", "{\"version\":2}"] {
            try content.write(toFile: folder + "/keys.json", atomically: false, encoding: .utf8)
            await #expect(throws: ExitCode(1)) { try await run(["check", "--config", file]) }
        }
        try keys.write(to: URL(filePath: folder + "/keys.json"))
        try await run(["check", "--config", file])
        let faulty = ConfigurationFixture.minimal.replacingFirst("auth: none", with: "auth: some")
        try faulty.write(toFile: file, atomically: true, encoding: .utf8)
        await #expect(throws: ExitCode(1)) { try await run(["check", "--config", file]) }
        await #expect(throws: ExitCode(1)) { try await run(["serve", "--config", file]) }
        await #expect(throws: ExitCode(1)) { try await run(["migrate", "--config", file]) }
    }

    @Test("`migrate` → makes a database file with mode 0600; a second time → succeeds without a change")
    func migrate() async throws {
        let folder = try folder()
        try await run(["keys", "generate", "--file", folder + "/keys.json"])
        let file = folder + "/coatcheck.yaml"
        let text = ConfigurationFixture.minimal.replacingFirst(
            "providers:", with: "store: {url: \"sqlite:data/coatcheck.db\"}\nproviders:")
        try text.write(toFile: file, atomically: true, encoding: .utf8)
        try await run(["migrate", "--config", file])
        try await run(["migrate", "--config", file])
        let mode =
            try FileManager.default.attributesOfItem(atPath: folder + "/data/coatcheck.db")[.posixPermissions]
            as? NSNumber
        #expect(mode?.intValue == 0o600)
    }

    /// The owner, group and mode of a file.
    private func access(_ path: String) -> [UInt32] {
        var status = stat()
        guard lstat(path, &status) == 0 else { return [] }
        return [status.st_uid, status.st_gid, status.st_mode & 0o777]
    }

    @Test(
        "`keys rotate` replaces a key file, even behind a link → owner, group and mode stay, and no other file is left (SEC-51)"
    )
    func ownership() async throws {
        let folder = try folder()
        let file = folder + "/keys.json"
        try await run(["keys", "generate", "--file", file])
        // Only root can change a file's owner.
        let isRoot = geteuid() == 0
        for mode: mode_t in [0o640, 0o400, 0o600] {
            #expect(chmod(file, mode) == 0)
            if isRoot { #expect(chown(file, 54_321, 54_322) == 0) }
            let before = access(file)
            try await run(["keys", "rotate", "--file", file, "--now"])
            #expect(access(file) == before)
        }
        #expect(try KeyRingFile.load(file).list.count == 4)
        let link = folder + "/link.json"
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: "keys.json")
        try await run(["keys", "rotate", "--file", link, "--now"])
        #expect(try FileManager.default.destinationOfSymbolicLink(atPath: link) == "keys.json")
        #expect(try KeyRingFile.load(file).list.count == 5)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder).sorted() == ["keys.json", "link.json"])
    }

    @Test(
        "root runs `keys generate` in another user's folder → the key file belongs to this user, so the broker can read it"
    )
    func madeByRoot() async throws {
        guard geteuid() == 0 else { return }
        let folder = try folder()
        #expect(chown(folder, 54_321, 54_322) == 0)
        try await run(["keys", "generate", "--file", folder + "/keys.json"])
        #expect(access(folder + "/keys.json") == [54_321, 54_322, 0o600])
    }
}
