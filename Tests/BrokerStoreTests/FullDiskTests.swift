import Broker
import GRDB
import Testing

@testable import BrokerStore

@Suite("SQLite: a full disk")
struct FullDiskTests {
    @Test("A full disk refuses new logins, still answers, and ended sessions stay ended (SEC-123, note 20)")
    func full() async throws {
        try await TemporaryStore.with { store, _ in
            let subject = Rows.digest()
            let big = String(repeating: "t", count: 20_000)
            let sessions = (0..<3).map { Rows.session(subject: subject, at: Rows.seconds($0), tokens: big) }
            for session in sessions { try await store.signIn(session) }
            let lasting = Rows.session()
            try await store.signIn(lasting)
            // No page more: what needs one gets SQLITE_FULL, as from a full disk.
            let pages = try await store.integer("PRAGMA page_count")
            try await store.maintain("PRAGMA max_page_count = \(pages)")

            await #expect(throws: StoreFailure.self) {
                for _ in 0..<200 {
                    _ = try await store.insertLogin(Rows.login(), limits: LoginLimits(pendingPerToken: 1000))
                }
            }
            #expect(try await store.session(token: sessions[0].token) == sessions[0])

            let ended = try await store.endSessions(.token(sessions[0].token), reason: .loggedOut, now: Rows.seconds(9))
            #expect(ended == [sessions[0].token])
            #expect(store.pendingEndings == 1)
            let row = try #require(try await store.session(token: sessions[0].token))
            #expect(row.endReason == .loggedOut)
            #expect(row.tokens == nil)
            #expect(try await store.session(handle: sessions[0].handle)?.endedAt == Rows.seconds(9))
            let live = try await store.sessions(.subject(subject), .live, after: nil, limit: 9, now: Rows.seconds(9))
            #expect(live.map(\.token) == [sessions[2].token, sessions[1].token])
            let claim = try await store.claimRefresh(sessions[0].token)
            #expect(claim == .gone)
            #expect(try await store.commit(sessions[0].token, version: 1, "new") == .ended)
            #expect(try await store.endSessions(.token(sessions[0].token), reason: .admin, now: Rows.now) == [])
            let rest = try await store.endSessions(.subject(subject), reason: .admin, now: Rows.seconds(10))
            #expect(Set(rest) == [sessions[1].token, sessions[2].token])
            #expect(store.pendingEndings == 3)

            // The disk has room again: the next write brings the endings along.
            try await store.maintain("PRAGMA max_page_count = 1000000")
            #expect(try await store.insertLogin(Rows.login(), limits: LoginLimits()) == .inserted)
            #expect(store.pendingEndings == 0)
            #expect(try await store.session(token: sessions[0].token)?.endReason == .loggedOut)
            #expect(try await store.session(token: sessions[1].token)?.endReason == .admin)
            #expect(try await store.outboxCount() == 3)
            #expect(try await store.session(token: lasting.token) == lasting)
        }
    }
}
