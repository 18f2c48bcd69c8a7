import BrokerTestSupport
import BrokerVault
import Synchronization
import Testing

@testable import Broker

/// Notices of other replicas.
///
/// The notices empty the session cache and reach listeners. While their connection is broken, the cache is closed (guarantee
/// 6).
@Suite(.timeLimit(.minutes(1))) struct ReplicaNoticesTests {
    @Test(
        "A replica cannot receive notices → it caches nothing; it receives them again → it begins with an empty cache (SEC-129)"
    )
    func deafness() async throws {
        let broker = try TestBroker()
        let session = try await broker.signIn()
        func use() async throws -> Int {
            _ = try await broker.useCases.resumeSession.resume(session.token)
            return broker.context.cache.count
        }
        #expect(try await use() == 1)
        let replicas = TestSharedStore()
        ReplicaNotices(broker.context).listen(to: replicas)
        #expect(broker.context.cache.count == 0)
        #expect(try await use() == 0)
        replicas.say(.hearing)
        #expect(try await use() == 1)
        replicas.say(.deaf)
        #expect(broker.context.cache.count == 0)
        #expect(try await use() == 0)
        replicas.say(.hearing)
        #expect(broker.context.cache.count == 0)
        #expect(try await use() == 1)
    }

    @Test(
        "A session is refreshed on any replica → its event streams here get one notice; with no streams, the store is not asked"
    )
    func refreshes() async throws {
        let broker = try TestBroker(script: .init(tokenLifetime: .seconds(3600)))
        let session = try await broker.signIn()
        let live = try await broker.useCases.resumeSession.resume(session.token)
        let versions = TestSharedStore()
        let refreshes = ReplicaRefreshes(broker.context, versions)
        try await refreshes.look()
        #expect(versions.asked.withLock { $0.isEmpty })
        let heard = Mutex<[SessionNotice]>([])
        let subscription = broker.useCases.listenToSession.listen(live) { notice in
            heard.withLock { $0.append(notice) }
        }
        func look(_ version: Int64) async throws -> Int {
            versions.known.withLock { $0[live.tokenDigest] = version }
            try await refreshes.look()
            return heard.withLock { $0.count }
        }
        #expect(try await look(1) == 0)
        #expect(try await look(2) == 1)
        #expect(try await look(2) == 1)
        // The store's answer may be late or come from a standby. So the broker ignores an answer with an older version.
        #expect(try await look(1) == 1)
        #expect(try await look(5) == 2)
        _ = try await broker.useCases.refreshTokens.refreshNow(live)
        #expect(broker.provider.refreshes == 1)
        #expect(heard.withLock { $0 } == [.tokensRefreshed, .tokensRefreshed])
        withExtendedLifetime(subscription) {}
    }

    @Test("A presence key is registered on any replica → the session's event streams on this replica get one notice")
    func presences() async throws {
        let broker = try TestBroker(script: .init(tokenLifetime: .seconds(3600)))
        let session = try await broker.signIn()
        let live = try await broker.useCases.resumeSession.resume(session.token)
        let replicas = TestSharedStore()
        replicas.known.withLock { $0[live.tokenDigest] = 1 }
        let refreshes = ReplicaRefreshes(broker.context, replicas)
        let heard = Mutex<[SessionNotice]>([])
        let subscription = broker.useCases.listenToSession.listen(live) { notice in
            heard.withLock { $0.append(notice) }
        }
        try await refreshes.look()
        #expect(heard.withLock { $0.isEmpty })
        replicas.present.withLock { _ = $0.insert(live.tokenDigest) }
        for _ in 0..<2 { try await refreshes.look() }
        broker.context.notices.presenceRegistered(live.tokenDigest)
        #expect(heard.withLock { $0 } == [.presenceKeyChanged])
        withExtendedLifetime(subscription) {}
    }

    @Test(
        "This replica refreshes a session → its event streams get one notice, even if the next check finds the new version"
    )
    func ownRefresh() async throws {
        let broker = try TestBroker(script: .init(tokenLifetime: .seconds(3600)))
        let session = try await broker.signIn()
        let live = try await broker.useCases.resumeSession.resume(session.token)
        let versions = TestSharedStore()
        let heard = Mutex<[SessionNotice]>([])
        let subscription = broker.useCases.listenToSession.listen(live) { notice in
            heard.withLock { $0.append(notice) }
        }
        _ = try await broker.useCases.refreshTokens.refreshNow(live)
        versions.known.withLock { $0[live.tokenDigest] = live.row.tokenVersion + 1 }
        try await ReplicaRefreshes(broker.context, versions).look()
        #expect(heard.withLock { $0 } == [.tokensRefreshed])
        // A refresh for another API raises the row's version, but the session's own token stays the same. So listeners are not
        // notified.
        _ = try await broker.useCases.fetchTargetToken.accessToken(for: live, at: TokenTarget(audience: "a"))
        versions.known.withLock { $0[live.tokenDigest] = live.row.tokenVersion + 2 }
        try await ReplicaRefreshes(broker.context, versions).look()
        #expect(heard.withLock { $0 } == [.tokensRefreshed])
        withExtendedLifetime(subscription) {}
    }

    @Test(
        "Another replica refreshes a session, and then a call here gets a token for another API → its event streams get a notice"
    )
    func refreshedElsewhere() async throws {
        let broker = try TestBroker()
        let replica = try TestBroker(
            store: broker.store, vault: broker.vault, provider: broker.provider, clock: broker.clock)
        let session = try await broker.signIn()
        let live = try await broker.useCases.resumeSession.resume(session.token)
        let heard = Mutex<[SessionNotice]>([])
        let subscription = broker.useCases.listenToSession.listen(live) { notice in
            heard.withLock { $0.append(notice) }
        }
        let there = try await replica.useCases.resumeSession.resume(session.token)
        _ = try await replica.useCases.refreshTokens.refreshNow(there)
        _ = try await broker.useCases.fetchTargetToken.accessToken(for: live, at: TokenTarget(audience: "a"))
        let version = try await broker.row(of: session).tokenVersion
        #expect(version == 3 && heard.withLock { $0.isEmpty })
        let versions = TestSharedStore()
        versions.known.withLock { $0[live.tokenDigest] = version }
        try await ReplicaRefreshes(broker.context, versions).look()
        #expect(heard.withLock { $0 } == [.tokensRefreshed])
        withExtendedLifetime(subscription) {}
    }

    @Test("A session's last event stream closes → the store is no longer asked about the session")
    func listenersLeave() async throws {
        let broker = try TestBroker()
        let notices = broker.context.notices
        let token = try await broker.useCases.resumeSession.resume(try await broker.signIn().token).tokenDigest
        let first = Mutex<Subscription?>(notices.subscribe(token, of: token, limit: 2, version: 1) { _ in })
        let second = Mutex<Subscription?>(notices.subscribe(token, of: token, limit: 2, version: 1) { _ in })
        first.withLock { $0 = nil }
        #expect(notices.listenedTo == [token])
        second.withLock { $0 = nil }
        #expect(notices.listenedTo.isEmpty)
    }

    @Test("Many sessions have event streams → the store is asked about all of these sessions, a thousand at a time")
    func manyListeners() async throws {
        let broker = try TestBroker()
        let versions = TestSharedStore()
        var subscriptions: [Subscription] = []
        let heard = Mutex(0)
        for index in 0..<1_001 {
            let token = broker.vault.digest(Array("session \(index)".utf8))
            versions.known.withLock { $0[token] = 2 }
            subscriptions.append(
                broker.context.notices.subscribe(token, of: token, limit: 1, version: 1) { _ in
                    heard.withLock { $0 += 1 }
                })
        }
        try await ReplicaRefreshes(broker.context, versions).look()
        #expect(heard.withLock { $0 } == 1_001)
        #expect(versions.asked.withLock { $0.map(\.count) } == [1_000, 1])
        withExtendedLifetime(subscriptions) {}
    }

    @Test(
        "A session ends on another replica → it leaves this replica's cache at once, and its event streams get the reason"
    )
    func endings() async throws {
        let broker = try TestBroker()
        let sessions = [try await broker.signIn(code: "c1"), try await broker.signIn(code: "c2")]
        let replicas = TestSharedStore()
        ReplicaNotices(broker.context).listen(to: replicas)
        replicas.say(.hearing)
        var lives: [LiveSession] = []
        for session in sessions { lives.append(try await broker.useCases.resumeSession.resume(session.token)) }
        #expect(broker.context.cache.count == 2)
        let heard = Mutex<[SessionNotice]>([])
        let subscriptions = lives.map { live in
            broker.useCases.listenToSession.listen(live) { notice in heard.withLock { $0.append(notice) } }
        }
        replicas.say(.ended([EndedSession(tokenDigest: lives[0].tokenDigest, reason: .loggedOut)]))
        #expect(broker.context.cache.count == 1)
        #expect(heard.withLock { $0 } == [.ended(.loggedOut)])
        withExtendedLifetime(subscriptions) {}
    }

    @Test(
        "A step-up on another replica keeps the token version → the session leaves the cache, and its event streams get a notice"
    )
    func stepUps() async throws {
        let broker = try TestBroker()
        let session = try await broker.signIn()
        let replicas = TestSharedStore()
        ReplicaNotices(broker.context).listen(to: replicas)
        replicas.say(.hearing)
        let live = try await broker.useCases.resumeSession.resume(session.token)
        #expect(broker.context.cache.count == 1)
        let heard = Mutex<[SessionNotice]>([])
        let subscription = broker.useCases.listenToSession.listen(live) { notice in
            heard.withLock { $0.append(notice) }
        }
        replicas.say(.steppedUp([live.tokenDigest]))
        #expect(broker.context.cache.count == 0)
        #expect(heard.withLock { $0 } == [.tokensRefreshed])
        withExtendedLifetime(subscription) {}
    }

    @Test(
        "A session changes on another replica → this replica reads it at once; its event streams wait for the regular check"
    )
    func changes() async throws {
        let broker = try TestBroker()
        let session = try await broker.signIn()
        let replicas = TestSharedStore()
        ReplicaNotices(broker.context).listen(to: replicas)
        replicas.say(.hearing)
        func resumed() async throws -> LiveSession {
            try await broker.useCases.resumeSession.resume(session.token)
        }
        let live = try await resumed()
        let heard = Mutex<[SessionNotice]>([])
        let subscription = broker.useCases.listenToSession.listen(live) { notice in
            heard.withLock { $0.append(notice) }
        }
        let presence = SessionPresence(thumbprint: broker.vault.digest([1]), registeredAt: broker.clock.now)
        let sealed = try broker.vault.seal(presence.record, as: .presence, row: live.tokenDigest)
        let audit = AuditRow(at: broker.clock.now, actor: "a", action: "b", target: "c", outcome: "d")
        _ = try await broker.store.registerPresence(
            PresenceCommit(tokenDigest: live.tokenDigest, sealed: sealed, audit: audit))
        #expect(try await resumed().view.version == 1)
        replicas.say(.changed([live.tokenDigest]))
        let now = try await resumed()
        #expect(now.view.version == 2 && now.row.presence != nil)
        #expect(heard.withLock { $0.isEmpty })
        withExtendedLifetime(subscription) {}
    }

    @Test(
        "A session ends on another replica, with a reason that the API lacks → its event streams get a reason that the API has"
    )
    func reason() async throws {
        let broker = try TestBroker()
        let live = try await broker.useCases.resumeSession.resume(try await broker.signIn().token)
        let heard = Mutex<[SessionNotice]>([])
        let subscription = broker.useCases.listenToSession.listen(live) { notice in
            heard.withLock { $0.append(notice) }
        }
        let replicas = TestSharedStore()
        ReplicaNotices(broker.context).listen(to: replicas)
        replicas.say(.ended([EndedSession(tokenDigest: live.tokenDigest, reason: .loggedOutInBrowser)]))
        #expect(heard.withLock { $0 } == [.ended(.loggedOut)])
        withExtendedLifetime(subscription) {}
    }
}
