import Broker
import BrokerStore
import BrokerVault
import Foundation

/// Fills a store through its port, or measures the port.
///
/// This program is not part of a release.
///
///     store-load fill URL COUNT KEYS            adds sessions, sealed with that key file, until there are COUNT
///
///     store-load check|slide|refresh|sign-in URL SECONDS [CONNECTIONS [AT-ONCE [SESSIONS]]]
///
/// The second form works on SESSIONS of the stored sessions, chosen at random. It prints JSON: operations, seconds, and this
/// process's CPU microseconds for each operation. `URL` is `sqlite:FILE` or `postgresql://…`. No other program may use the
/// store.
@main
struct StoreLoad {
    private enum Fault: Error, CustomStringConvertible {
        case usage
        case noSessions
        var description: String {
            switch self {
            case .usage:
                "store-load fill URL COUNT KEYS | check|slide|refresh|sign-in URL SECONDS [CONNECTIONS [AT-ONCE [SESSIONS]]]"
            case .noSessions: "the store has no sessions: fill it first"
            }
        }
    }

    static func main() async {
        do {
            try await run(Array(CommandLine.arguments.dropFirst()))
        } catch {
            FileHandle.standardError.write(Data("store-load: \(error)\n".utf8))
            exit(1)
        }
    }

    private static func run(_ arguments: [String]) async throws {
        guard arguments.count >= 3, let number = Int(arguments[2]) else { throw Fault.usage }
        let numbers = arguments.dropFirst(3).compactMap { Int($0) }
        let store = try await open(arguments[1], connections: numbers.first ?? 8)
        if arguments[0] == "fill" {
            guard arguments.count == 4 else { throw Fault.usage }
            let keys = try Data(contentsOf: URL(fileURLWithPath: arguments[3]))
            try await fill(store, number, try OpenSSLVault(ring: KeyRing.parse(Array(keys))))
        } else {
            try await measure(
                arguments[0], store, for: .seconds(number), atOnce: numbers.dropFirst().first ?? 64,
                of: numbers.dropFirst(2).first ?? 1000)
        }
        await store.close()
    }

    private static func open(_ url: String, connections: Int) async throws -> any AdministeredStore {
        if url.hasPrefix("sqlite:") { return try await SQLiteStore.open(path: String(url.dropFirst(7)), reserve: 0) }
        return try await PostgreSQLStore.open(ConnectionSettings(url: url), listening: nil, connections: connections)
    }

    // MARK: Filling

    /// The number of rows in a transaction, and of transactions in progress.
    private static let (batch, writers) = (500, 4)

    private static func fill(_ store: any AdministeredStore, _ count: Int, _ vault: OpenSSLVault) async throws {
        let sample = try await SessionMould(store, vault)
        let missing = count - (try await store.rowCounts()[.sessions] ?? 0)
        let next = Tally()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<writers {
                group.addTask {
                    while true {
                        let begin = next.add(batch) - batch
                        guard begin < missing else { return }
                        try await store.insert(
                            (0..<min(batch, missing - begin)).map { _ in try sample.row(vault) })
                    }
                }
            }
            try await group.waitForAll()
        }
        print(try await store.rowCounts()[.sessions] ?? 0)
    }

    // MARK: Measuring

    private static func measure(
        _ what: String, _ store: any AdministeredStore, for time: Duration, atOnce: Int, of count: Int
    ) async throws {
        let sessions = try await some(count, of: store)
        guard !sessions.isEmpty else { throw Fault.noSessions }
        let operation = try operation(what, store, sessions)
        // Before the measurement, run for half a second, so that connections are made and statements are prepared.
        _ = try await repeated(for: .milliseconds(500), atOnce: atOnce, operation)
        let (cpu, begin) = (processorTime(), ContinuousClock.now)
        let done = try await repeated(for: time, atOnce: atOnce, operation)
        let seconds = Double((ContinuousClock.now - begin).wholeMilliseconds) / 1000
        let each = (processorTime() - cpu) / Double(max(done, 1)) * 1_000_000
        print(
            #"{"operations":\#(done),"seconds":\#(seconds),"rate":\#(Int(Double(done) / seconds)),"cpu_us":\#(each)}"#)
    }

    /// Returns at most `count` sessions that have not ended, from random places in the whole store.
    private static func some(_ count: Int, of store: any AdministeredStore) async throws -> [SessionRow] {
        var sessions: [SessionRow] = []
        for _ in 0..<count {
            var start = [UInt8](repeating: 0, count: 32)
            for index in start.indices { start[index] = .random(in: .min ... .max) }
            let page = try await store.rows(of: .sessions, after: start, limit: 1)
            if case .session(let row, _) = page.rows.first, row.endedAt == nil { sessions.append(row) }
        }
        return sessions
    }

    private typealias Operation = @Sendable (_ step: Int) async throws -> Void

    private static func operation(
        _ what: String, _ store: any AdministeredStore, _ sessions: [SessionRow]
    ) throws -> Operation {
        let start = WallTime(milliseconds: Int64(Date().timeIntervalSince1970 * 1000))
        switch what {
        case "check":
            return { step in _ = try await store.session(tokenDigest: sessions[step % sessions.count].tokenDigest) }
        case "slide":
            return { step in
                let row = sessions[step % sessions.count]
                let now = start.advanced(by: .seconds(step / sessions.count))
                try await store.slideSession(
                    tokenDigest: row.tokenDigest, lastUsedAt: now,
                    idleExpiresAt: now.advanced(by: .seconds(30 * 86_400)))
            }
        case "refresh":
            return { step in
                let row = sessions[step % sessions.count]
                guard let state = try await store.refreshState(row.tokenDigest) else { return }
                let name = ClaimID(random: SessionMould.digest().bytes)
                let claim = RefreshClaim(
                    tokenDigest: row.tokenDigest, tokenVersion: state.tokenVersion, name: name, lifetime: .seconds(25),
                    now: start)
                guard case .claimed = try await store.claimRefresh(claim), let tokens = row.tokens else { return }
                _ = try await store.commitRefresh(
                    RefreshCommit(
                        tokenDigest: row.tokenDigest, tokenVersion: state.tokenVersion, tokens: tokens, facts: nil,
                        tokenExpiresAt: start.advanced(by: .seconds(3600)), refreshable: true, expiresAt: nil))
            }
        case "sign-in":
            return { step in
                let claim = ExchangeRow(
                    key: SessionMould.digest(), proof: SessionMould.digest(), salt: SessionMould.digest().bytes,
                    keyID: sessions[0].facts.keyID, claim: ClaimID(random: SessionMould.digest().bytes),
                    claimFor: .seconds(25), createdAt: start, gate: .none)
                guard case .claimed(let row) = try await store.claimExchange(claim, maximumAttempts: 3) else { return }
                _ = try await store.completeExchange(
                    row.key, fence: row.fence, session: SessionMould.another(sessions[step % sessions.count]),
                    replacing: nil, sessionLimit: 50)
            }
        default: throw Fault.usage
        }
    }

    /// Repeats an operation for a time, with `atOnce` in progress, and returns the number of finished operations.
    private static func repeated(
        for time: Duration, atOnce: Int, _ operation: @escaping Operation
    ) async throws -> Int {
        let done = Tally()
        let end = ContinuousClock.now + time
        try await withThrowingTaskGroup(of: Void.self) { group in
            for task in 0..<atOnce {
                group.addTask {
                    var step = task
                    while ContinuousClock.now < end {
                        try await operation(step)
                        step += atOnce
                        done.add(1)
                    }
                }
            }
            try await group.waitForAll()
        }
        return done.value
    }

    /// The seconds of CPU time that this process has used.
    private static func processorTime() -> Double {
        var usage = rusage()
        getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
        return [usage.ru_utime, usage.ru_stime].reduce(0) { $0 + Double($1.tv_sec) + Double($1.tv_usec) / 1_000_000 }
    }
}
