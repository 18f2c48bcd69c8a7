import BrokerStore
import BrokerTestSupport
import BrokerVault
import Foundation
import Synchronization
import Testing

@testable import Broker

/// A session's life: lifetimes, endings, refreshes.
@Suite(.timeLimit(.minutes(2))) struct SessionTests {
    @Test(
        "A token that the broker never issued → `session_required` (SEC-35)",
        arguments: ["", "short", String(repeating: "a", count: 43), "ses_x"])
    func unknown(_ token: String) async throws {
        let broker = try TestBroker()
        #expect(
            await problem { try await broker.useCases.resumeSession.resume(Secret(token)) }?.code == .sessionRequired)
    }

    @Test("A session is never used → it ends at its idle end; it is used daily → it ends at its absolute end (SEC-40)")
    func lifetimes() async throws {
        let broker = try TestBroker(script: .init(tokenLifetime: nil))
        let idle = try await broker.signIn(code: "c1")
        broker.clock.advance(.seconds(30 * 86_400))
        let problem1 = await problem { try await broker.useCases.resumeSession.resume(idle.token) }
        #expect(problem1?.reason == .idleExpired)

        let busy = try await broker.signIn(code: "c2")
        for _ in 0..<89 {
            broker.clock.advance(.seconds(86_400))
            let used = try await broker.useCases.resumeSession.use(busy.token)
            // The new end of the idle time is written to the store in the background, after the answer.
            try await eventually("the use of the session is stored") {
                try await broker.store.session(tokenDigest: used.tokenDigest)?.lastUsedAt == broker.clock.now
            }
        }
        broker.clock.advance(.seconds(86_400))
        let problem2 = await problem { try await broker.useCases.resumeSession.use(busy.token) }
        #expect(problem2?.code == .sessionEnded && problem2?.reason == .expired)
    }

    @Test("A session is only looked at → its idle end stays; it is used → its idle end slides")
    func sliding() async throws {
        let broker = try TestBroker(script: .init(tokenLifetime: nil))
        let session = try await broker.signIn()
        broker.clock.advance(.seconds(86_400))
        #expect(
            try await broker.useCases.resumeSession.resume(session.token).view.idleExpiresAt
                == session.session.idleExpiresAt)
        _ = try await broker.useCases.resumeSession.use(session.token)
        let slid = try await broker.useCases.resumeSession.resume(session.token).view
        #expect(slid.idleExpiresAt.since(session.session.idleExpiresAt) == .seconds(86_400))
        #expect(slid.expiresAt == session.session.expiresAt)
    }

    @Test("A session has no refresh token → it ends with its access token, as `token_expired`")
    func tokenExpired() async throws {
        let broker = try TestBroker(script: .init(tokenLifetime: .seconds(3600), refreshToken: false))
        let session = try await broker.signIn()
        #expect(!session.session.refreshable && session.session.expiresAt == session.session.tokensExpireAt)
        broker.clock.advance(.seconds(3600))
        #expect(
            await problem { try await broker.useCases.resumeSession.resume(session.token) }?.reason == .tokenExpired)
    }

    @Test(
        "A session is logged out twice → ended at once by the first log-out; its tokens go to the outbox one time (SEC-62)"
    )
    func logOut() async throws {
        let broker = try TestBroker()
        let session = try await broker.signIn()
        _ = try await broker.useCases.resumeSession.resume(session.token)
        try await broker.useCases.endSession.logOut(session.token)
        try await broker.useCases.endSession.logOut(session.token)
        let problem = await problem { try await broker.useCases.resumeSession.resume(session.token) }
        #expect(problem?.code == .sessionEnded && problem?.reason == .loggedOut)
        #expect(try await broker.store.outboxCount() == 1)
        #expect(try await broker.store.session(handle: session.session.handle)?.tokens == nil)
    }

    @Test("A user ends sessions of other devices → only the user's own sessions can end (SEC-100)")
    func devices() async throws {
        let broker = try TestBroker()
        let one = try await broker.signIn(code: "c1")
        let two = try await broker.signIn(code: "c2")
        let three = try await broker.signIn(code: "c3")
        broker.provider.script.withLock { $0.subject = "user-2" }
        let foreign = try await broker.signIn(code: "c4")
        let live = try await broker.useCases.resumeSession.resume(one.token)
        #expect(try await broker.useCases.listSessions.list(for: live, cursor: nil).items.count == 3)
        #expect(
            await problem { try await broker.useCases.endSession.end(handle: foreign.session.handle, ownedBy: live) }?
                .code
                == .notFound)
        try await broker.useCases.endSession.end(handle: two.session.handle, ownedBy: live)
        #expect(
            await problem { try await broker.useCases.resumeSession.resume(two.token) }?.reason == .loggedOutElsewhere)
        try await broker.useCases.endSession.endOthers(of: live)
        #expect(
            await problem { try await broker.useCases.resumeSession.resume(three.token) }?.reason == .loggedOutElsewhere
        )
        _ = try await broker.useCases.resumeSession.resume(one.token)
        _ = try await broker.useCases.resumeSession.resume(foreign.token)
    }

    @Test(
        "A logout token is good → it ends all sessions of its subject, once; a bad one ends none (SEC-66, SEC-67, SEC-68)"
    )
    func backchannel() async throws {
        let broker = try TestBroker()
        let one = try await broker.signIn(code: "c1")
        let two = try await broker.signIn(code: "c2")
        let name = ProviderName(unchecked: "as")
        #expect(
            await problem { try await broker.useCases.backchannelLogout.receive(provider: name, token: Secret("bad")) }?
                .code == .invalidRequest)
        _ = try await broker.useCases.resumeSession.resume(one.token)
        try await broker.useCases.backchannelLogout.receive(provider: name, token: Secret("jti-1"))
        for session in [one, two] {
            #expect(
                await problem { try await broker.useCases.resumeSession.resume(session.token) }?.reason
                    == .providerLogout)
        }
        #expect(
            await problem {
                try await broker.useCases.backchannelLogout.receive(provider: name, token: Secret("jti-1"))
            }?.code == .invalidRequest)
    }

    @Test(
        "The store fails, so a replay of a logout token would not be noticed → 503, so that the provider sends it again (SEC-67)"
    )
    func replayMemoryDown() async throws {
        let broker = try TestBroker()
        _ = try await broker.signIn()
        await broker.store.close()
        let refused = await problem {
            try await broker.useCases.backchannelLogout.receive(
                provider: ProviderName(unchecked: "as"), token: Secret("jti-1"))
        }
        #expect(refused?.code == .storeUnavailable)
    }

    @Test("A user has more sessions in a client than the cap → the oldest session ends as `session_limit` (SEC-100)")
    func sessionCap() async throws {
        var settings = BrokerSettings()
        settings.sessionsPerSubjectAndClient = 2
        let broker = try TestBroker(settings: settings)
        var sessions: [SignedIn] = []
        for index in 1...3 {
            sessions.append(try await broker.signIn(code: "c\(index)"))
            broker.clock.advance(.seconds(1))
        }
        #expect(
            await problem { try await broker.useCases.resumeSession.resume(sessions[0].token) }?.reason == .sessionLimit
        )
        for session in sessions.dropFirst() { _ = try await broker.useCases.resumeSession.resume(session.token) }
        #expect(try await broker.store.outboxCount() == 1)
    }

    @Test("Operators list ended sessions → each has its reason, subject and time, and the newest is first")
    func endedSessions() async throws {
        let broker = try TestBroker()
        let one = try await broker.signIn(code: "c1")
        let two = try await broker.signIn(code: "c2")
        broker.clock.advance(.seconds(60))
        try await broker.useCases.endSession.logOut(two.token)
        broker.clock.advance(.seconds(60))
        try await broker.useCases.adminSessions.end(handle: one.session.handle, actor: "ops")
        var filter = AdminSessions.Filter(provider: ProviderName(unchecked: "as"))
        filter.subject = one.session.subject
        let page = try await broker.useCases.adminSessions.list(filter, .ended, cursor: nil)
        #expect(page.items.map(\.session.handle) == [one.session.handle, two.session.handle])
        #expect(page.items.map(\.reason) == [.admin, .loggedOut])
        #expect(page.items.first?.endedAt == broker.clock.now)
        #expect(page.items.map(\.session.subject) == [one.session.subject, one.session.subject])
        #expect(try await broker.useCases.adminSessions.list(filter, .live, cursor: nil).items.isEmpty)
        let first = try await broker.useCases.adminSessions.list(filter, .ended, cursor: nil, limit: 1)
        let second = try await broker.useCases.adminSessions.list(filter, .ended, cursor: first.nextCursor, limit: 1)
        #expect((first.items + second.items).map(\.session.handle) == page.items.map(\.session.handle))
        #expect(second.nextCursor == nil)
    }

    @Test(
        "Two hundred callers need a token that has expired → one refresh, and all get the new token (SEC-54)",
        .timeLimit(.minutes(1)))
    func oneRefresh() async throws {
        let broker = try TestBroker()
        let session = try await broker.signIn()
        broker.clock.advance(.seconds(3601))
        let live = try await broker.useCases.resumeSession.resume(session.token)
        broker.provider.gate.close()
        func waits() -> Int { broker.events.all.count { if case .refreshWaited = $0 { true } else { false } } }
        let tokens = try await withThrowingTaskGroup(of: String.self) { group in
            for _ in 0..<200 {
                group.addTask { try await broker.useCases.refreshTokens.accessToken(for: live).token.reveal() }
            }
            // A caller that comes after the refresh gets the new token at once. So open the gate only when all callers wait.
            try await eventually("199 callers wait for the first") { waits() >= 199 }
            broker.provider.gate.open()
            return try await group.reduce(into: Set()) { $0.insert($1) }
        }
        #expect(broker.provider.refreshes == 1)
        #expect(tokens == ["at-r1"])
        // One caller made the refresh. Each of the others counts once as served by this refresh, although it read the row
        // several times.
        let shared = broker.events.all.filter { if case .refreshShared = $0 { true } else { false } }
        #expect(shared.count == 199)
        #expect(waits() == 199)
    }

    @Test(
        "Three hundred callers wait for one refresh → at most 60 writes, because waiting callers do not write (SEC-54)",
        .timeLimit(.minutes(1)))
    func writesAtExpiry() async throws {
        let directory = FileManager.default.temporaryDirectory.path + "/coatcheck-refresh-\(UUID().uuidString)"
        try FileManager.default.createDirectory(
            atPath: directory, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let store = try await SQLiteStore.open(path: directory + "/coatcheck.db")
        let broker = try TestBroker(store: store)
        let session = try await broker.signIn()
        broker.clock.advance(.seconds(3601))
        let live = try await broker.useCases.resumeSession.resume(session.token)
        let before = store.writeStatistics.writes
        broker.provider.gate.close()
        let tokens = try await withThrowingTaskGroup(of: String.self) { group in
            for _ in 0..<300 {
                group.addTask { try await broker.useCases.refreshTokens.accessToken(for: live).token.reveal() }
            }
            // By now all other callers wait, because the provider is slow.
            try await eventually("299 callers wait for the first") {
                broker.events.all.filter({ if case .refreshWaited = $0 { true } else { false } }).count >= 299
            }
            broker.provider.gate.open()
            return try await group.reduce(into: Set()) { $0.insert($1) }
        }
        #expect(tokens.count == 1 && broker.provider.refreshes == 1)
        #expect(store.writeStatistics.writes - before <= 60)
        await store.close()
    }

    @Test("A refresh makes two calls → both have the same deadline, 15 s after its start (SEC-54)")
    func oneDeadline() async throws {
        let broker = try TestBroker(
            script: .init(refresh: [.lost(detail: ""), .rejected(OAuthError(status: 400, code: "invalid_grant"))]))
        let session = try await broker.signIn()
        broker.clock.advance(.seconds(3601))
        let live = try await broker.useCases.resumeSession.resume(session.token)
        let end = broker.clock.clock.monotonic() + .seconds(15)
        broker.provider.gate.close()
        async let refused = problem { try await broker.useCases.refreshTokens.accessToken(for: live) }
        try await eventually("a call waits at the provider") { broker.provider.gate.waiting > 0 }
        // Both calls of the claim have one deadline. So the second call has only the time that the first call has left.
        broker.clock.advance(.seconds(5))
        broker.provider.gate.open()
        #expect(await refused?.reason == .refreshLost)
        #expect(broker.provider.script.withLock { $0.deadlines.suffix(2) } == [end, end])
    }

    @Test(
        "A refresh's answer is lost without time for a repeat → recorded, so a later `invalid_grant` is `refresh_lost` (SEC-56)"
    )
    func lostWithoutTime() async throws {
        let broker = try TestBroker(script: .init(refresh: [.lost(detail: "")]))
        let session = try await broker.signIn()
        broker.clock.advance(.seconds(3601))
        let live = try await broker.useCases.resumeSession.resume(session.token)
        broker.provider.gate.close()
        async let first = problem { try await broker.useCases.refreshTokens.accessToken(for: live) }
        try await eventually("a call is at the provider") { broker.provider.gate.waiting > 0 }
        broker.clock.advance(.seconds(14))
        broker.provider.gate.open()
        #expect(await first?.code == .providerUnavailable)
        #expect(broker.provider.refreshes == 1)
        broker.clock.advance(.seconds(10))
        broker.provider.script.withLock { $0.refresh = [.rejected(OAuthError(status: 400, code: "invalid_grant"))] }
        #expect(
            await problem { try await broker.useCases.refreshTokens.accessToken(for: live) }?.reason == .refreshLost)
    }

    @Test(
        "A session's refreshes get empty refusals for 10 min, then another session gets tokens → the next refusal ends the first"
    )
    func emptyRefusals() async throws {
        let empty = ProviderFailure.rejected(OAuthError(status: 401, code: ""))
        let broker = try TestBroker(script: .init(refresh: Array(repeating: empty, count: 20)))
        let session = try await broker.signIn(code: "c1")
        broker.clock.advance(.seconds(3601))
        let live = try await broker.useCases.resumeSession.resume(session.token)
        // In the first ten minutes, the endpoint refuses every refresh of every session. This may be a fault of the provider,
        // so the session stays.
        for _ in 0..<5 {
            broker.clock.advance(.seconds(120))
            let refused = await problem { try await broker.useCases.refreshTokens.accessToken(for: live) }
            #expect(refused?.code == .providerUnavailable)
        }
        _ = try await broker.signIn(code: "c2")
        broker.clock.advance(.seconds(120))
        #expect(
            await problem { try await broker.useCases.refreshTokens.accessToken(for: live) }?.reason == .grantRevoked)
    }

    @Test(
        "A refresh is refused during another session's token call, which then succeeds → the session of the refresh stays"
    )
    func emptyRefusalsAfterALateGrant() async throws {
        let empty = ProviderFailure.rejected(OAuthError(status: 401, code: ""))
        let broker = try TestBroker(script: .init(refresh: Array(repeating: empty, count: 20)))
        let session = try await broker.signIn(code: "c1")
        broker.clock.advance(.seconds(3601))
        let live = try await broker.useCases.resumeSession.resume(session.token)
        broker.provider.redeeming.close()
        async let other = broker.signIn(code: "c2")
        try await eventually("the code's call is at the provider") { broker.provider.redeeming.waiting > 0 }
        broker.clock.advance(.seconds(1))
        _ = await problem { try await broker.useCases.refreshTokens.accessToken(for: live) }
        broker.clock.advance(.seconds(1))
        broker.provider.redeeming.open()
        _ = try await other
        for _ in 0..<5 {
            broker.clock.advance(.seconds(120))
            let refused = await problem { try await broker.useCases.refreshTokens.accessToken(for: live) }
            #expect(refused?.code == .providerUnavailable)
        }
    }

    @Test(
        "A process died after it stored a refreshed pair → the pair's user is checked before any caller gets the token (SEC-59)"
    )
    func uncheckedSubject() async throws {
        let broker = try TestBroker(script: .init(refreshedSubject: .subject("somebody-else")))
        let session = try await broker.signIn()
        let row = try #require(try await broker.store.session(handle: session.session.handle))
        let stored = try StoredTokens.open(row, broker.context)
        // Another process has committed this token pair, and died before it checked the id_token.
        let marked = StoredTokens(
            provider: stored.provider, client: stored.client, tokens: stored.tokens, issuedAt: broker.clock.now,
            uncheckedIDToken: Secret("id"))
        let commit = RefreshCommit(
            tokenDigest: row.tokenDigest, tokenVersion: 1,
            tokens: try broker.vault.seal(marked.record, as: .tokens, row: row.tokenDigest), facts: nil,
            tokenExpiresAt: row.tokenExpiresAt, refreshable: true, expiresAt: nil, subjectUnchecked: true)
        #expect(try await broker.store.commitRefresh(commit) == .committed)
        let live = try await broker.useCases.resumeSession.resume(session.token)
        #expect(
            await problem { try await broker.useCases.refreshTokens.accessToken(for: live) }?.reason == .subjectChanged)
        #expect(broker.provider.refreshes == 0)
    }

    @Test("An access token is near its end → it is served at once, and refreshed in the background (guarantee 3)")
    func early() async throws {
        let broker = try TestBroker()
        let session = try await broker.signIn()
        broker.clock.advance(.seconds(3560))
        let live = try await broker.useCases.resumeSession.resume(session.token)
        let token = try await broker.useCases.refreshTokens.accessToken(for: live)
        #expect(token.version == 1)
        try await eventually("a refresh is at the provider") { broker.provider.refreshes > 0 }
        try await eventually("the new tokens are stored") {
            try await broker.store.session(tokenDigest: live.tokenDigest)?.tokenVersion != 1
        }
    }

    @Test(
        "A refresh has a temporary fault, or gets `invalid_client` → 503, and the session lives on (SEC-58)",
        arguments: [
            ProviderFailure.notSent(detail: ""), .retryable(status: 503, retryAfter: .seconds(9), detail: ""),
            .unusable(detail: ""), .rejected(OAuthError(status: 401, code: "invalid_client")),
        ])
    func passingFaults(_ failure: ProviderFailure) async throws {
        let broker = try TestBroker(script: .init(refresh: [failure, failure]))
        let session = try await broker.signIn()
        broker.clock.advance(.seconds(3601))
        let live = try await broker.useCases.resumeSession.resume(session.token)
        let problem = await problem { try await broker.useCases.refreshTokens.accessToken(for: live) }
        #expect(problem?.code == .providerUnavailable && problem?.retryAfter != nil)
        _ = try await broker.useCases.resumeSession.resume(session.token)
        broker.clock.advance(.seconds(10))
        broker.provider.script.withLock { $0.refresh = [] }
        _ = try await broker.useCases.refreshTokens.accessToken(for: live)
    }

    @Test("A refresh gets `invalid_grant` → the session ends as `grant_revoked`, with one event (SEC-58)")
    func invalidGrant() async throws {
        let broker = try TestBroker(script: .init(refresh: [.rejected(OAuthError(status: 400, code: "invalid_grant"))]))
        let session = try await broker.signIn()
        broker.clock.advance(.seconds(3601))
        let live = try await broker.useCases.resumeSession.resume(session.token)
        #expect(
            await problem { try await broker.useCases.refreshTokens.accessToken(for: live) }?.reason == .grantRevoked)
        #expect(
            await problem { try await broker.useCases.resumeSession.resume(session.token) }?.reason == .grantRevoked)
        let endings = broker.events.all.filter {
            if case .refreshEndedSession(_, _, _, .grantRevoked) = $0 { true } else { false }
        }
        #expect(endings.count == 1)
    }

    @Test(
        "A refresh's answer is lost → one repeat with the same idempotency key; the repeat is refused → `refresh_lost` (SEC-56)"
    )
    func lost() async throws {
        let broker = try TestBroker(
            script: .init(refresh: [.lost(detail: ""), .rejected(OAuthError(status: 400, code: "invalid_grant"))]))
        let session = try await broker.signIn()
        broker.clock.advance(.seconds(3601))
        let live = try await broker.useCases.resumeSession.resume(session.token)
        #expect(
            await problem { try await broker.useCases.refreshTokens.accessToken(for: live) }?.reason == .refreshLost)
        let keys = broker.provider.script.withLock { $0.refreshes.map(\.idempotencyKey) }
        #expect(keys.count == 2 && Set(keys).count == 1)
    }

    @Test("A refreshed id_token names another user → the session ends as `subject_changed` (SEC-59)")
    func otherSubject() async throws {
        let broker = try TestBroker(script: .init(refreshedSubject: .subject("somebody-else")))
        let session = try await broker.signIn()
        broker.clock.advance(.seconds(3601))
        let live = try await broker.useCases.resumeSession.resume(session.token)
        #expect(
            await problem { try await broker.useCases.refreshTokens.accessToken(for: live) }?.reason == .subjectChanged)
        #expect(
            await problem { try await broker.useCases.resumeSession.resume(session.token) }?.reason == .subjectChanged)
    }

    @Test("A refresh ends after its session's log-out → the session stays ended, and the new pair is revoked (SEC-64)")
    func lateRefresh() async throws {
        let broker = try TestBroker()
        let session = try await broker.signIn()
        broker.clock.advance(.seconds(3601))
        let live = try await broker.useCases.resumeSession.resume(session.token)
        broker.provider.gate.close()
        let waiting = Task { try await broker.useCases.refreshTokens.accessToken(for: live) }
        try await eventually("a call is at the provider") { broker.provider.gate.waiting > 0 }
        try await broker.useCases.endSession.logOut(session.token)
        broker.provider.gate.open()
        #expect(await problem { try await waiting.value }?.reason == .loggedOut)
        #expect(try await broker.store.outboxCount() == 2)
        #expect(await problem { try await broker.useCases.resumeSession.resume(session.token) }?.reason == .loggedOut)
    }

    @Test(
        "A session's row contains the sealed facts of another session → the session ends with the reason `integrity` (SEC-48)"
    )
    func integrity() async throws {
        let broker = try TestBroker()
        let one = try await broker.signIn(code: "c1")
        let two = try await broker.signIn(code: "c2")
        let stolen = try #require(try await broker.store.session(handle: one.session.handle))
        let target = try #require(try await broker.store.session(handle: two.session.handle))
        _ = try await broker.store.commitRefresh(
            RefreshCommit(
                tokenDigest: target.tokenDigest, tokenVersion: 1, tokens: target.tokens ?? target.facts,
                facts: stolen.facts,
                tokenExpiresAt: nil, refreshable: true, expiresAt: nil))
        broker.context.cache.remove([])
        broker.context.cache.reset(open: true)
        #expect(await problem { try await broker.useCases.resumeSession.resume(two.token) }?.reason == .integrity)
    }

    @Test("A session ends → the cache drops it, and a load that began before the end does not restore it (SEC-129)")
    func cache() async throws {
        let broker = try TestBroker()
        let session = try await broker.signIn()
        let row = try #require(try await broker.store.session(handle: session.session.handle))
        let live = LiveSession(
            row: row,
            facts: try SessionFacts(
                record: try broker.context.vault.open(row.facts, as: .session, row: row.tokenDigest)),
            binding: nil)
        let cache = SessionCache()
        let before = cache.lookUp(row.tokenDigest, at: .seconds(1))
        cache.remove([row.tokenDigest])
        cache.insert(live, loadedAt: .seconds(1), generation: before.generation)
        #expect(cache.lookUp(row.tokenDigest, at: .seconds(1)).session == nil)
        let after = cache.lookUp(row.tokenDigest, at: .seconds(1))
        cache.insert(live, loadedAt: .seconds(1), generation: after.generation)
        #expect(cache.lookUp(row.tokenDigest, at: .seconds(5)).session != nil)
        #expect(cache.lookUp(row.tokenDigest, at: .seconds(6)).session == nil)
    }
}
