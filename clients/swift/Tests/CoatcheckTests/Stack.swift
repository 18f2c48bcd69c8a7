import Foundation

@testable import Coatcheck

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Two replicas of a broker, which apps reach in turn, and a sandbox.
///
/// Each run of the tests has its own stack, on free ports.
///
/// The programs are those that COATCHECK and COATCHECK_SANDBOX name, with the configuration of the scenarios. If
/// PostgreSQL is not installed, there is only one broker.
final class Stack: @unchecked Sendable {
    /// The address that apps know.
    ///
    /// Requests go to the replicas in turn.
    var broker: URL { balancer.url }
    let sandbox: URL
    /// The replicas' own addresses.
    let replicas: [URL]
    private let balancer: ProxyProcess
    private let database: Database?
    private let folder: URL
    private let managements: [URL]
    private let program: String
    private let emulator: Process
    private let lock = NSLock()
    private var serving: [Process] = []

    /// A PostgreSQL that ends when its input closes, at the end of the tests.
    private struct Database {
        let url: String
        let input: Pipe
    }

    /// The reason why the tests cannot run on this machine, or nil if they can.
    static var missing: String? {
        let environment = ProcessInfo.processInfo.environment
        return environment["COATCHECK"] == nil || environment["COATCHECK_SANDBOX"] == nil
            ? "COATCHECK and COATCHECK_SANDBOX name no programs" : nil
    }

    /// The stack of all tests.
    ///
    /// Each test has its own devices.
    static let shared = Task { try await Stack() }

    init() async throws {
        let environment = ProcessInfo.processInfo.environment
        guard let program = environment["COATCHECK"], let emulator = environment["COATCHECK_SANDBOX"] else {
            throw Failure(text: "no programs")
        }
        self.program = program
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        folder = FileManager.default.temporaryDirectory.appendingPathComponent("coatcheck-swift-\(UUID().uuidString)")
        try FileManager.default.createDirectory(
            at: folder.appendingPathComponent("data"), withIntermediateDirectories: true,
            attributes: [.posixPermissions: 0o700])
        let support = root.appendingPathComponent("Tests/scenarios/support")
        database = try Self.startDatabase(support, log: folder.appendingPathComponent("postgresql.log"))
        let (sandboxPort, closedPort) = (try Self.freePort(), try Self.freePort())
        let ports = try (0..<(database == nil ? 1 : 2)).map { _ in (try Self.freePort(), try Self.freePort()) }
        replicas = try ports.map { try Self.url($0.0) }
        managements = try ports.map { try Self.url($0.1) }
        sandbox = try Self.url(sandboxPort)
        balancer = try ProxyProcess("evidence_proxy.py", to: replicas[0], ports.dropFirst().map { "\($0.0)" })
        self.emulator = try Self.start(
            emulator, ["--listen", "127.0.0.1:\(sandboxPort)"], log: folder.appendingPathComponent("sandbox.log"))
        try await Self.ready(sandbox.appendingPathComponent("_sandbox/health"))
        try await control(
            "PUT", "/clients/oidc/web-client", #"{"secret":"wq8ZrT5nLk2YvB7x:c/d+e&f","auth":"client_secret_basic"}"#)
        try await control(
            "PUT", "/clients/clever/web-0001", #"{"secret":"wq8ZrT5nLk2YvB7xHs0d","auth":"client_secret_basic"}"#)
        let key = try await Self.fetch(sandbox.appendingPathComponent("_sandbox/client-key.pem"))
        try Self.write(key, to: folder.appendingPathComponent("client-key.pem"))
        let template = folder.appendingPathComponent("template.yaml")
        try Self.start(
            "/usr/bin/env",
            [
                "sed", "-f", support.appendingPathComponent("bound-clients.sed").path,
                support.appendingPathComponent("coatcheck.yaml").path,
            ], log: template
        ).waitUntilExit()
        for (number, port) in ports.enumerated() {
            var text = try String(contentsOf: template, encoding: .utf8)
            if let database {
                text = text.replacingOccurrences(of: "sqlite:@WORK@/data/coatcheck.db", with: database.url)
            }
            for (name, value) in [
                ("SANDBOX", sandbox.absoluteString), ("BROKER", balancer.url.absoluteString),
                ("BROKER_PORT", "\(port.0)"), ("MANAGEMENT_PORT", "\(port.1)"), ("CLOSED_PORT", "\(closedPort)"),
                ("WORK", folder.path), ("OPENID_PROVIDER", "http://127.0.0.1:\(closedPort)"),
            ] { text = text.replacingOccurrences(of: "@\(name)@", with: value) }
            try Self.write(Data(text.utf8), to: folder.appendingPathComponent("replica-\(number).yaml"))
        }
        let keys = try Self.start(
            program, ["keys", "generate", "--file", folder.appendingPathComponent("keys.json").path],
            log: folder.appendingPathComponent("keys.log"))
        keys.waitUntilExit()
        try await startBroker()
        // The programs end with the tests.
        let pid = ProcessInfo.processInfo.processIdentifier
        _ = try Self.start(
            "/bin/sh",
            [
                "-c",
                "while kill -0 \(pid) 2>/dev/null; do sleep 1; done; kill \(self.emulator.processIdentifier) $(cat '\(folder.path)/pid'); rm -rf '\(folder.path)'",
            ],
            log: folder.appendingPathComponent("end.log"))
    }

    func startBroker() async throws {
        var processes: [Process] = []
        for number in managements.indices {
            processes.append(
                try Self.start(
                    program, ["serve", "--config", folder.appendingPathComponent("replica-\(number).yaml").path],
                    log: folder.appendingPathComponent("broker-\(number).log")))
        }
        lock.withLock { serving = processes }
        let pids = processes.map { "\($0.processIdentifier)" }.joined(separator: " ")
        try Self.write(Data(pids.utf8), to: folder.appendingPathComponent("pid"))
        for management in managements { try await Self.ready(management.appendingPathComponent("readyz")) }
    }

    func killBroker() {
        for process in lock.withLock({ serving }) {
            kill(process.processIdentifier, SIGKILL)
            process.waitUntilExit()
        }
    }

    /// Starts a PostgreSQL; returns nil if it is not installed here.
    private static func startDatabase(_ support: URL, log: URL) throws -> Database? {
        let (process, input, output) = (Process(), Pipe(), Pipe())
        process.executableURL = support.appendingPathComponent("postgresql")
        process.standardInput = input
        process.standardOutput = output
        try write(Data(), to: log)
        process.standardError = try FileHandle(forWritingTo: log)
        try process.run()
        let words = String(decoding: output.fileHandleForReading.availableData, as: UTF8.self).split(separator: " ")
        guard words.count > 1, words[0] == "ready" else { return nil }
        return Database(url: "postgresql://coatcheck@127.0.0.1:\(words[1])/postgres", input: input)
    }

    /// Calls a control endpoint of the sandbox.
    @discardableResult
    func control(_ method: String, _ path: String, _ body: String? = nil) async throws -> Data {
        var request = URLRequest(url: try Self.url(sandbox.absoluteString + "/_sandbox" + path))
        request.httpMethod = method
        request.httpBody = body.map { Data($0.utf8) }
        request.setValue("application/json", forHTTPHeaderField: "Content-Type")
        return try await URLSession.shared.data(for: request).0
    }

    /// Returns the number of calls to one endpoint of the sandbox, for example `oidc/token`.
    func calls(_ endpoint: String) async throws -> Int {
        try JSONDecoder().decode([String: Int].self, from: try await control("GET", "/counts"))[endpoint] ?? 0
    }

    /// Asks both replicas in turn until they report that a session has ended.
    ///
    /// Returns the reason.
    func ending(_ field: String, _ value: String) async throws -> String {
        struct Refusal: Decodable { var reason: String? }
        let wire = Wire()
        defer { wire.close() }
        var request = URLRequest(url: broker.appendingPathComponent("v1/session"))
        request.httpShouldHandleCookies = false
        request.setValue(value, forHTTPHeaderField: field)
        var before: String?
        let begin = ContinuousClock.now
        while ContinuousClock.now - begin < .seconds(20) {
            let now = try await wire.send(request).decoded(Refusal.self).reason
            if let now, now == before { return now }
            before = now
        }
        throw Failure(text: "a session has not ended")
    }

    /// Makes a device with its own key.
    ///
    /// The device can reach the broker through a proxy (`url`), and can have a wrong clock (`now`).
    func boundDevice(
        _ client: String = "bound", user: String, key: SoftwareProofKey?, at url: URL? = nil,
        storage: any CredentialStorage = MemoryStorage(), now: @escaping @Sendable () -> Date = { Date() }
    ) -> Coatcheck {
        Coatcheck(
            broker: url ?? broker, client: client, storage: storage, key: key, browser: ScriptedBrowser(user: user),
            patience: Patience(), now: now)
    }

    /// Makes a new device.
    func device(
        _ client: String = "ios", user: String = "ana", storage: any CredentialStorage = MemoryStorage(),
        patience: Patience = Patience()
    ) -> Coatcheck {
        Coatcheck(
            broker: broker, client: client, storage: storage, browser: ScriptedBrowser(user: user), patience: patience)
    }

    static func url(_ text: String) throws -> URL {
        guard let url = URL(string: text) else { throw Failure(text: text) }
        return url
    }

    private static func url(_ port: Int) throws -> URL { try url("http://127.0.0.1:\(port)") }

    private static func fetch(_ url: URL) async throws -> Data { try await URLSession.shared.data(from: url).0 }

    private static func write(_ data: Data, to file: URL) throws {
        try data.write(to: file)
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: file.path)
    }

    private static func ready(_ url: URL) async throws {
        let begin = ContinuousClock.now
        while ContinuousClock.now - begin < .seconds(60) {
            if let (_, answer) = try? await URLSession.shared.data(from: url),
                (answer as? HTTPURLResponse)?.statusCode == 200
            {
                return
            }
            try await Task.sleep(for: .milliseconds(50))
        }
        throw Failure(text: "\(url) did not get ready")
    }

    private static func start(_ program: String, _ arguments: [String], log: URL) throws -> Process {
        if !FileManager.default.fileExists(atPath: log.path) { try write(Data(), to: log) }
        let process = Process()
        process.executableURL = URL(fileURLWithPath: program)
        process.arguments = arguments
        process.standardInput = FileHandle.nullDevice
        let output = try FileHandle(forWritingTo: log)
        output.seekToEndOfFile()
        process.standardOutput = output
        process.standardError = output
        try process.run()
        return process
    }

    private static func freePort() throws -> Int {
        #if os(Linux)
            let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        #else
            let listener = socket(AF_INET, SOCK_STREAM, 0)
        #endif
        defer { close(listener) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let port = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address -> Int? in
                guard bind(listener, address, length) == 0, getsockname(listener, address, &length) == 0 else {
                    return nil
                }
                return address.withMemoryRebound(to: sockaddr_in.self, capacity: 1) {
                    Int(UInt16(bigEndian: $0.pointee.sin_port))
                }
            }
        }
        guard let port else { throw Failure(text: "no free port") }
        return port
    }

    struct Failure: Error { let text: String }
}
