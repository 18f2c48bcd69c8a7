import Broker
import GRDB
import Testing

@testable import BrokerStore

@Suite("SQLite: an unreadable row does not block others", .timeLimit(.minutes(2)))
struct NeighbourTests {
    /// The damage to one row of several.
    enum Harm: String, CaseIterable, Sendable {
        case newerFormat = "format = 2"
        case handle = "handle = 'x'"
        case subjectAndClient = "subject_and_client = x'00'"
        case client = "client = zeroblob(33)"
        case token = "token = x'00'"
        case reason = "refreshable = 7"
    }

    /// A store with three sessions of one subject; the second one is damaged.
    private func with(
        _ harm: Harm, _ body: (SQLiteStore, [SessionRow], Digest) async throws -> Void
    ) async throws {
        try await TemporaryStore.with { store, _ in
            let subject = Rows.digest()
            let sessions = (0..<3).map { Rows.session(subject: subject, sid: subject, at: Rows.seconds($0)) }
            for session in sessions { try await store.signIn(session) }
            try await store.maintain("PRAGMA ignore_check_constraints = ON")
            try await store.maintain(
                "UPDATE sessions SET \(harm.rawValue) WHERE created_at = \(sessions[1].createdAt.milliseconds)")
            try await store.maintain("PRAGMA ignore_check_constraints = OFF")
            try await body(store, sessions, subject)
        }
    }

    @Test(
        "All sessions of a user are ended, and one session's row is unreadable → every session ends, including this one",
        .timeLimit(.minutes(1)),
        arguments: Harm.allCases)
    func endings(_ harm: Harm) async throws {
        try await with(harm) { store, sessions, subject in
            let ended = try await store.endSessions(
                .subjectExcept(subject, current: sessions[2].tokenDigest), reason: .loggedOutElsewhere,
                now: Rows.seconds(9))
            #expect(ended.contains(sessions[0].tokenDigest))
            let rest = try await store.endSessions(.sid(subject), reason: .providerLogout, now: Rows.seconds(9))
            #expect(rest == [sessions[2].tokenDigest])
            #expect(try await store.integer("SELECT count(*) FROM sessions WHERE ended_at IS NULL") == 0)
            #expect(try await store.endSessions(.all, reason: .admin, now: Rows.seconds(9)) == [])
        }
    }

    @Test(
        "A session whose row is unreadable is ended → its sealed tokens go to the outbox unchanged",
        .timeLimit(.minutes(1)))
    func outbox() async throws {
        try await with(.newerFormat) { store, sessions, subject in
            let ended = try await store.endSessions(.subject(subject), reason: .admin, now: Rows.seconds(9))
            #expect(Set(ended) == Set(sessions.map(\.tokenDigest)))
            let rows = try await store.takeOutbox(now: Rows.seconds(9), until: Rows.seconds(99), limit: 9)
            #expect(Set(rows.map(\.boundTo)) == Set(sessions.map(\.tokenDigest)))
            #expect(rows.allSatisfy { $0.tokens == sessions[0].tokens })
        }
    }

    @Test(
        "The row of a device's session is unreadable → the device can sign in again", .timeLimit(.minutes(1)),
        arguments: Harm.allCases)
    func signIn(_ harm: Harm) async throws {
        try await with(harm) { store, sessions, subject in
            let fresh = Rows.session(subject: subject, at: Rows.seconds(5))
            try await store.signIn(fresh, replacing: sessions[1].tokenDigest)
            #expect(try await store.session(tokenDigest: fresh.tokenDigest) == fresh)
        }
    }

    @Test(
        "Lists of sessions with an unreadable row → show the other sessions, page by page", .timeLimit(.minutes(1)),
        arguments: Harm.allCases)
    func lists(_ harm: Harm) async throws {
        try await with(harm) { store, sessions, subject in
            let all = try await store.sessions(.subject(subject), .live, after: nil, limit: 9, now: Rows.seconds(5))
            #expect(
                all.map(\.tokenDigest).filter { $0 != sessions[1].tokenDigest } == [
                    sessions[2].tokenDigest, sessions[0].tokenDigest,
                ])
            let two = try await store.sessions(.subject(subject), .live, after: nil, limit: 2, now: Rows.seconds(5))
            #expect(two.count == 2)
        }
    }

    @Test(
        "A sweep finds a damaged session row → ends it; a row of a newer format → skips it; all other lapsed sessions end",
        .timeLimit(.minutes(1)), arguments: Harm.allCases
    )
    func sweep(_ harm: Harm) async throws {
        try await with(harm) { store, sessions, _ in
            for _ in 0..<3 {
                _ = try await store.sweep(now: Rows.seconds(40 * 86_400), limit: 100, lapsedSince: Rows.now)
            }
            let left = try await store.integer("SELECT count(*) FROM sessions WHERE ended_at IS NULL")
            #expect(left == (harm == .newerFormat ? 1 : 0))
            #expect(try await store.session(tokenDigest: sessions[0].tokenDigest)?.endedAt != nil)
        }
    }

    @Test("A damaged row in the outbox → skipped, and the other rows are taken", .timeLimit(.minutes(1)))
    func revocations() async throws {
        try await TemporaryStore.with { store, _ in
            let rows = (0..<3).map { Rows.outbox(at: Rows.seconds($0)) }
            try await store.addOutbox(rows)
            try await store.maintain("PRAGMA ignore_check_constraints = ON")
            try await store.maintain(
                "UPDATE outbox SET bound_to = x'00' WHERE created_at = \(rows[1].createdAt.milliseconds)")
            let taken = try await store.takeOutbox(now: Rows.seconds(9), until: Rows.seconds(99), limit: 9)
            #expect(taken.map(\.id) == [rows[0].id, rows[2].id])
        }
    }

    @Test(
        "A device's list of pending logins has a row of a newer format → the list has the device's other logins",
        .timeLimit(.minutes(1)))
    func logins() async throws {
        try await TemporaryStore.with { store, _ in
            let token = Rows.digest()
            let logins = (0..<2).map { Rows.login(tokenDigest: token, at: Rows.seconds($0)) }
            for login in logins { _ = try await store.insertLogin(login, limits: LoginLimits()) }
            try await store.maintain(
                "UPDATE logins SET format = 2 WHERE created_at = \(logins[1].createdAt.milliseconds)")
            #expect(try await store.pendingLogins(loginTokenDigest: token, now: Rows.seconds(5)) == [logins[0]])
        }
    }
}
