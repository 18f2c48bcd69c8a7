import Broker
import Synchronization
import Testing

@testable import BrokerStore

@Suite("PostgreSQL: commits that wait for a standby")
struct StandbyTests {
    /// Cancels the next commit's wait for the standby, as an operator or a time-out does.
    private func cancelWait(_ url: String, unless isAnswered: () -> Bool) async throws {
        let end = ContinuousClock.now + .seconds(30)
        while ContinuousClock.now < end {
            if isAnswered() { return }
            let row = try PostgreSQLServer.execute(
                """
                SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity
                WHERE wait_event = 'SyncRep' AND application_name = 'coatcheck' AND backend_type = 'client backend'
                """, in: url)
            if row.first != "0" { return }
            try await Task.sleep(for: .milliseconds(10))
        }
        Issue.record("no commit waited for the standby within thirty seconds")
    }

    private func isInDoubt(_ url: String, _ write: @escaping @Sendable () async throws -> Void) async throws -> Bool {
        let flag = Flag()
        let outcome = Task {
            defer { flag.isUp.withLock { $0 = true } }
            do {
                try await write()
                return false
            } catch StoreFailure.inDoubt { return true }
        }
        try await cancelWait(url) { flag.isUp.withLock { $0 } }
        return try await outcome.value
    }

    private final class Flag: Sendable {
        let isUp = Mutex(false)
    }

    @Test(
        "A commit's wait for the standby is cancelled → the result is in doubt; a failover → the standby has all answered writes",
        .timeLimit(.minutes(3)))
    func standby() async throws {
        let server = try StandbyServer()
        let settings = try ConnectionSettings(url: server.url)
        #expect(try await PostgreSQLStore.migrate(settings).to == PostgreSQLSchema.newest)
        #expect(try await PostgreSQLStore.waitsForStandby(settings))
        #expect(try await !PostgreSQLStore.isStandby(settings))
        #expect(try await PostgreSQLStore.isStandby(try ConnectionSettings(url: server.standbyURL)))
        let store = try await PostgreSQLStore.open(settings, listening: nil, connections: 4, migrating: false)
        let (ended, claimed, kept) = (Rows.session(), Rows.session(), Rows.session())
        for session in [ended, claimed] { try await store.signIn(session) }

        try server.command("standby-stop")
        #expect(
            try await isInDoubt(server.url) {
                _ = try await store.endSessions(.token(ended.tokenDigest), reason: .loggedOut, now: Rows.now)
            })
        // The primary has the ending, but the standby may lack it.
        #expect(try await store.session(tokenDigest: ended.tokenDigest)?.endReason == .loggedOut)
        let name = ClaimID(random: Array(repeating: 7, count: 16))
        let claim = RefreshClaim(
            tokenDigest: claimed.tokenDigest, tokenVersion: 1, name: name, lifetime: .seconds(300), takesOver: true,
            now: Rows.now)
        #expect(try await isInDoubt(server.url) { _ = try await store.claimRefresh(claim) })

        try server.command("standby-start")
        guard case .claimed(let grant) = try await store.claimRefresh(claim) else {
            Issue.record("a claim that its owner repeats under its name is not granted")
            return
        }
        #expect(grant.takenOverFor == nil && !grant.takenOverBefore)
        try await store.signIn(kept)

        try server.command("failover")
        // After the failover, the store's connections have to find the new primary.
        var found: SessionRow?
        let end = ContinuousClock.now + .seconds(60)
        while found == nil, ContinuousClock.now < end, !Task.isCancelled {
            found = try? await store.session(tokenDigest: kept.tokenDigest)
        }
        #expect(found == kept)
        #expect(try await store.session(tokenDigest: ended.tokenDigest)?.endReason == .loggedOut)
        guard case .busy = try await store.claimRefresh(claimed.tokenDigest) else {
            Issue.record("the claim is missing after the failover")
            return
        }
        await store.close()
        withExtendedLifetime(server) {}
    }

    @Test(
        "A retry finds its work already committed → the standby confirms this commit before the retry is answered",
        .timeLimit(.minutes(3)))
    func foundDone() async throws {
        let server = try StandbyServer()
        let settings = try ConnectionSettings(url: server.url)
        let store = try await PostgreSQLStore.open(settings, listening: nil, connections: 6)
        let (ended, refreshed, told) = (Rows.session(), Rows.session(), Rows.session(sid: Rows.digest()))
        for session in [ended, refreshed, told] { try await store.signIn(session) }
        let fresh = Rows.session()
        let exchange = try await store.mustClaim(Rows.exchange())
        let sid = try #require(told.sid)
        let jti = Rows.digest()
        /// The writes behind HTTP answers of 201, 204 and 200. Each is repeated, as a caller repeats a request without an
        /// answer.
        let writes: [(name: String, write: @Sendable () async throws -> Void)] = [
            (
                "log-out",
                {
                    _ = try await store.endSessions(
                        .token(ended.tokenDigest), reason: .loggedOut, now: Rows.now, limit: 9)
                }
            ),
            (
                "sign-in",
                {
                    _ = try await store.completeExchange(
                        exchange.key, fence: exchange.fence, session: fresh, replacing: nil, sessionLimit: 50)
                }
            ),
            ("sign-in asked for again", { _ = try await store.claimAnew(exchange) }),
            (
                "logout token",
                {
                    _ = try await store.consumeLogoutToken(
                        jti, until: Rows.seconds(600), ending: .sid(sid), now: Rows.now, limit: 9)
                }
            ),
            ("refresh", { _ = try await store.commit(refreshed.tokenDigest, version: 1, "new") }),
        ]
        try server.command("standby-freeze")
        for (name, write) in writes {
            for time in 0..<2 { #expect(try await isInDoubt(server.url, write), "\(name), \(time)") }
        }
        // The primary has the session, but the standby may lack it.
        #expect(try await store.session(tokenDigest: fresh.tokenDigest) == fresh)
        try server.command("standby-thaw")
        for (_, write) in writes { try await write() }
        #expect(
            try await store.consumeLogoutToken(
                jti, until: Rows.seconds(600), ending: .sid(sid), now: Rows.now, limit: 9) == .replayed)
        try server.command("failover")
        var found: SessionRow?
        let end = ContinuousClock.now + .seconds(60)
        while found == nil, ContinuousClock.now < end, !Task.isCancelled {
            found = try? await store.session(tokenDigest: fresh.tokenDigest)
        }
        #expect(found == fresh)
        #expect(try await store.session(tokenDigest: ended.tokenDigest)?.endReason == .loggedOut)
        #expect(try await store.session(tokenDigest: told.tokenDigest)?.endReason == .providerLogout)
        #expect(try await store.session(tokenDigest: refreshed.tokenDigest)?.tokenVersion == 2)
        await store.close()
        withExtendedLifetime(server) {}
    }
}
