import Foundation
import Testing

@testable import Coatcheck

@Suite("The mark of a move, in a file", .timeLimit(.minutes(1)))
struct MarkTests {
    private func file() -> URL {
        FileManager.default.temporaryDirectory.appendingPathComponent("mark-\(UUID().uuidString)")
    }

    private func remove(_ file: URL) {
        for suffix in ["", ".lock", ".next"] { try? FileManager.default.removeItem(atPath: file.path + suffix) }
    }

    @Test("A mark is stored, changed and removed → each process reads the present state")
    func kept() throws {
        let file = file()
        defer { remove(file) }
        let (app, widget) = (FileMarkStorage(file), FileMarkStorage(file))
        #expect(try app.read() == nil && !widget.isMoving)
        let mark = try #require(try app.change { _ in MoveInMark() })
        #expect(mark.loginToken.count == 43 && !mark.posts)
        #expect(try widget.read() == mark && widget.isMoving)
        let mode = try FileManager.default.attributesOfItem(atPath: file.path)[.posixPermissions] as? Int
        #expect(mode == 0o600)
        try app.remove()
        try app.remove()
        #expect(try widget.read() == nil && !widget.isMoving)
    }

    @Test("Forty callers begin a move at the same time → one mark, and so one login token")
    func race() async throws {
        let file = file()
        defer { remove(file) }
        let tokens = try await withThrowingTaskGroup(of: String?.self) { group in
            for _ in 0..<40 {
                group.addTask {
                    let new = MoveInMark()
                    return try FileMarkStorage(file).change { $0 ?? new }?.loginToken
                }
            }
            return try await group.reduce(into: Set<String?>()) { $0.insert($1) }
        }
        #expect(tokens.count == 1)
    }

    @Test("Another process is about to write its mark → the app waits for it, and uses the other's login token")
    func otherProcess() async throws {
        let file = file()
        defer { remove(file) }
        let other = Process()
        other.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        let script = """
            import fcntl, sys, time
            lock = open(sys.argv[1] + ".lock", "w")
            fcntl.flock(lock, fcntl.LOCK_EX)
            print("locked", flush=True)
            time.sleep(1)
            open(sys.argv[1], "w").write('{"loginToken":"from-the-other-process","posts":false}')
            """
        other.arguments = ["python3", "-c", script, file.path]
        let output = Pipe()
        other.standardOutput = output
        try other.run()
        _ = output.fileHandleForReading.availableData
        let mark = try FileMarkStorage(file).change { $0 ?? MoveInMark() }
        other.waitUntilExit()
        #expect(mark?.loginToken == "from-the-other-process")
    }

    @Test("Two processes of the app move at the same time → one login token, one session, and both are signed in")
    func twoProcesses() async throws {
        let file = file()
        defer { remove(file) }
        let (disk, broker) = (PhoneDisk(), try MovingBroker())
        let runs = [AppRun(disk), AppRun(disk)]
        let apps = runs.map { broker.app($0) }
        async let one = apps[0].moveIn(from: runs[0], provider: "oidc", marks: FileMarkStorage(file))
        async let two = apps[1].moveIn(from: runs[1], provider: "oidc", marks: FileMarkStorage(file))
        for outcome in try await [one, two] {
            switch outcome {
            case .moved, .notNow(.signedIn), .notNow(.markTaken): continue
            default: Issue.record("\(outcome)")
            }
        }
        #expect(broker.differentBodies.count == 1 && disk.session == "the-session" && disk.oldTokens == nil)
        #expect(!FileMarkStorage(file).isMoving)
    }
}
