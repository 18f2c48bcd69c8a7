import Broker
import Foundation
import Testing

@testable import BrokerStore

/// The PostgreSQL and pgbouncer of the tests.
///
/// They end with the test process: its pipe then closes, and `Tests/scenarios/support/postgresql` stops both at the end of its
/// input.
actor PostgreSQLServer {
    /// The error if the tests have no PostgreSQL, with the reason.
    struct Missing: Error, CustomStringConvertible {
        let description: String
    }

    struct Address: Sendable {
        let port: String
        let pid: Int32
        let folder: String
        let pooler: String
    }

    static let shared = PostgreSQLServer()

    private var address: Result<Address, Missing>?
    /// The pipe that keeps the server alive while it is open.
    private var input: Pipe?

    /// The number of databases that tests may use at the same time.
    ///
    /// Further tests wait.
    private static let places = 8
    private var isInUse = 0
    private var waiting: [CheckedContinuation<Void, Never>] = []
    /// Migrated, empty databases that are free.
    private var free: [String] = []

    /// Runs `body` with the URLs of an empty database, direct and through the pooler.
    ///
    /// A migrated database is emptied and used again, unless `isSpoilt` reports that its schema or settings were changed.
    static func withDatabase(
        migrated: Bool = true, isSpoilt: Bool = false, _ body: (_ direct: String, _ pooled: String) async throws -> Void
    ) async throws {
        let (name, address) = try await shared.take(migrated: migrated)
        let direct = "postgresql://coatcheck@127.0.0.1:\(address.port)/\(name)"
        let result: Result<Void, any Error>
        do {
            result = .success(try await body(direct, "postgresql://coatcheck@127.0.0.1:\(address.pooler)/\(name)"))
        } catch {
            result = .failure(error)
        }
        await shared.giveBack(name, isSpoilt: isSpoilt || !migrated)
        try result.get()
    }

    private func take(migrated: Bool) async throws -> (name: String, address: Address) {
        if isInUse >= Self.places { await withCheckedContinuation { waiting.append($0) } } else { isInUse += 1 }
        do {
            let address = try start()
            if migrated, let name = free.popLast() { return (name, address) }
            return (try create(migrated: migrated, address), address)
        } catch {
            leave()
            throw error
        }
    }

    private func giveBack(_ name: String, isSpoilt: Bool) {
        defer { leave() }
        do {
            if isSpoilt { return try administer("DROP DATABASE \(name) WITH (FORCE)") }
            let address = try start()
            // A trigger refuses the removal of audit rows, so all triggers are switched off.
            try Self.connect("postgresql://coatcheck@127.0.0.1:\(address.port)/\(name)").execute(
                """
                SET session_replication_role = replica;
                TRUNCATE logins, handoffs, exchanges, registrations, sessions, session_states, outbox, logout_tokens,
                    key_seals, leases, audit, audience_tokens, taken_proofs, import_grants, import_pairs
                """, within: .seconds(60))
            free.append(name)
        } catch {
            Issue.record("a test database could not be emptied for the next test: \(error)")
        }
    }

    private func leave() {
        if waiting.isEmpty { isInUse -= 1 } else { waiting.removeFirst().resume() }
    }

    /// Returns the server's address.
    ///
    /// The first call starts the server.
    func start() throws -> Address {
        if let address { return try address.get() }
        let process = Process()
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        process.executableURL = root.appendingPathComponent("scenarios/support/postgresql")
        process.arguments = ["--pooler"]
        let (input, output) = (Pipe(), Pipe())
        process.standardInput = input
        process.standardOutput = output
        try process.run()
        var line: [UInt8] = []
        while let byte = try output.fileHandleForReading.read(upToCount: 1)?.first, byte != UInt8(ascii: "\n") {
            line.append(byte)
        }
        let words = String(decoding: line, as: UTF8.self).split(separator: " ").map { String($0) }
        guard words.count == 5, words[0] == "ready", let pid = Int32(words[2]) else {
            let missing = Missing(
                description: "no PostgreSQL for the tests: `scripts/setup test` installs what is missing")
            address = .failure(missing)
            throw missing
        }
        self.input = input
        let found = Address(port: words[1], pid: pid, folder: words[3], pooler: words[4])
        address = .success(found)
        return found
    }

    private func create(migrated: Bool, _ address: Address) throws -> String {
        let name = "test_\(UInt64.random(in: .min ... .max))"
        try administer("CREATE DATABASE \(name)")
        if migrated {
            let connection = try Self.connect("postgresql://coatcheck@127.0.0.1:\(address.port)/\(name)")
            _ = try Migrator(connection: connection, isPooled: false).run(migrating: true)
        }
        return name
    }

    private func administer(_ sql: String) throws {
        let address = try start()
        try Self.connect("postgresql://coatcheck@127.0.0.1:\(address.port)/postgres").execute(sql, within: .seconds(60))
    }

    /// Runs commands in a database and returns the first row of the last result.
    @discardableResult
    static func execute(_ sql: String, in url: String) throws -> [String?] {
        try connect(url).execute(sql, within: .seconds(60))
    }

    static func connect(_ url: String) throws -> LibPQConnection {
        try LibPQConnection(try ConnectionSettings(url: url), wakeup: try #require(Wakeup()))
    }
}
