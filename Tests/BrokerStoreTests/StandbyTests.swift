import Broker
import Testing

@testable import BrokerStore

@Suite("PostgreSQL: commits that wait for a standby")
struct StandbyTests {
    /// Cancels the wait of the next commit that waits for the standby, as an operator or a time-out does.
    private func cancelWait(_ url: String) async throws {
        let end = ContinuousClock.now + .seconds(30)
        while ContinuousClock.now < end {
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
        let outcome = Task {
            do {
                try await write()
                return false
            } catch StoreFailure.inDoubt { return true }
        }
        try await cancelWait(url)
        return try await outcome.value
    }

    @Test(
        "A commit whose wait for the standby is cancelled is in doubt; a failover keeps all that was answered",
        .timeLimit(.minutes(3)))
    func standby() async throws {
        let server = try StandbyServer()
        let settings = try ConnectionSettings(url: server.url)
        #expect(try await PostgreSQLStore.migrate(settings).to == PostgreSQLSchema.newest)
        #expect(try await PostgreSQLStore.waitsForStandby(settings))
        let store = try await PostgreSQLStore.open(settings, listening: nil, connections: 4, migrating: false)
        let (ended, claimed, kept) = (Rows.session(), Rows.session(), Rows.session())
        for session in [ended, claimed] { try await store.signIn(session) }

        try server.command("standby-stop")
        #expect(
            try await isInDoubt(server.url) {
                _ = try await store.endSessions(.token(ended.token), reason: .loggedOut, now: Rows.now)
            })
        // It stands on this server, and perhaps nowhere else.
        #expect(try await store.session(token: ended.token)?.endReason == .loggedOut)
        let name = ClaimID(random: Array(repeating: 7, count: 16))
        let claim = RefreshClaim(
            token: claimed.token, tokenVersion: 1, name: name, lifetime: .seconds(300), takesOver: true, now: Rows.now)
        #expect(try await isInDoubt(server.url) { _ = try await store.claimRefresh(claim) })

        try server.command("standby-start")
        guard case .claimed(let grant) = try await store.claimRefresh(claim) else {
            Issue.record("asked again by its name, the claim is not its owner's")
            return
        }
        #expect(grant.takenOverFor == nil && !grant.takenOverBefore)
        try await store.signIn(kept)

        try server.command("failover")
        // The connections find the new primary.
        var found: SessionRow?
        let end = ContinuousClock.now + .seconds(60)
        while found == nil, ContinuousClock.now < end, !Task.isCancelled {
            found = try? await store.session(token: kept.token)
        }
        #expect(found == kept)
        #expect(try await store.session(token: ended.token)?.endReason == .loggedOut)
        guard case .busy = try await store.claimRefresh(claimed.token) else {
            Issue.record("the claim did not come along")
            return
        }
        await store.close()
        withExtendedLifetime(server) {}
    }
}
