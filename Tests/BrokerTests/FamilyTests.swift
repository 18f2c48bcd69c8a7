import BrokerTestSupport
import BrokerVault
import Synchronization
import Testing

@testable import Broker

/// Child sessions: how they are made, refreshed, listed and ended (guarantee 10).
@Suite(.timeLimit(.minutes(2))) struct FamilyTests {
    private static let widget = ChildKind(unchecked: "widget")
    private static let watch = ChildKind(unchecked: "watch")
    private static let tv = ChildKind(unchecked: "tv")

    private static func clients(_ children: [ChildKind: ChildPolicy]) -> [ClientProfile] {
        var client = ClientProfile(
            name: ClientName(unchecked: "ios"), login: .both,
            redirectURIs: [RedirectURI(TestBroker.redirect)].compactMap { $0 },
            scope: ["openid", "email"], nonce: true)
        client.children = children
        return [client]
    }

    private static let policies = [
        widget: ChildPolicy(lifetimes: SessionLifetimes(idle: .seconds(3600), absolute: .seconds(7200))),
        watch: ChildPolicy(),
        tv: ChildPolicy(lifetimes: SessionLifetimes(idle: .seconds(60 * 86_400))),
    ]

    private func broker(
        _ script: ScriptedProvider.Script = .init(), store: (any BrokerStore)? = nil, clock: TestClock = TestClock()
    ) throws -> TestBroker {
        try TestBroker(store: store, clients: Self.clients(Self.policies), script: script, clock: clock)
    }

    /// Makes a child of a session.
    private func child(
        _ broker: TestBroker, of parent: SignedIn, _ name: String = "home", kind: ChildKind = widget,
        thumbprint: Digest? = nil, charge: Charge = .nobody
    ) async throws -> SignedIn {
        let live = try await broker.useCases.resumeSession.resume(parent.token)
        return try await broker.useCases.makeChild.make(
            ChildOrder(kind: kind, name: name, thumbprint: thumbprint), of: live, charge: charge)
    }

    private func ending(_ broker: TestBroker, _ session: SignedIn) async -> EndReason? {
        let problem = await problem { try await broker.useCases.resumeSession.resume(session.token) }
        #expect(problem == nil || problem?.code == .sessionEnded)
        return problem?.reason
    }

    @Test("A child session is made → it has its own handle, token and limits, but none of the provider's tokens")
    func made() async throws {
        let broker = try broker(.init(tokenLifetime: .seconds(600)))
        let parent = try await broker.signIn()
        let child = try await child(broker, of: parent)
        #expect(child.transport == .bearer && child.pass == nil)
        #expect(child.token.reveal() != parent.token.reveal() && child.session.handle != parent.session.handle)
        let view = try await broker.useCases.resumeSession.resume(child.token).view
        #expect(view.child?.kind == Self.widget && view.child?.parentHandle == parent.session.handle)
        #expect(view.subject == parent.session.subject && view.scope == parent.session.scope)
        #expect(view.expiresAt == broker.clock.now.advanced(by: .seconds(7200)))
        #expect(view.idleExpiresAt == broker.clock.now.advanced(by: .seconds(3600)))
        // The child uses its parent's tokens, and its session object shows when they expire.
        #expect(view.tokensExpireAt == parent.session.tokensExpireAt && view.refreshable)
        let row = try #require(try await broker.store.session(handle: child.session.handle))
        #expect(row.tokens == nil && !row.refreshable)
        let whose = try #require(try await broker.store.session(handle: parent.session.handle))
        #expect(row.subject == whose.subject && row.sid == whose.sid && row.client == whose.client)
        #expect(row.subjectAndClient != whose.subjectAndClient)
    }

    @Test(
        "An older release reads a child session's row → a newer format; the parent or place in a row was changed → malformed"
    )
    func sealed() async throws {
        let broker = try broker()
        let parent = try await broker.signIn()
        let other = try await broker.signIn(code: "code-2")
        let child = try await child(broker, of: parent)
        let row = try #require(try await broker.store.session(handle: child.session.handle))
        let record = try broker.vault.open(row.facts, as: .session, row: row.tokenDigest)
        #expect(throws: RecordFailure.newerFormat) { try RecordReader.bindable(record) }
        // An attacker with access to the database changes the child's row: to another family, or out of any family.
        let stranger = try #require(try await broker.store.session(handle: other.session.handle))
        for lineage in [Lineage(parent: stranger.tokenDigest, place: stranger.subject), nil] {
            var changed = row
            changed.lineage = lineage
            #expect(throws: RecordFailure.malformed) { try SessionFacts.open(changed, broker.vault) }
        }
        var adopted = stranger
        adopted.lineage = row.lineage
        #expect(throws: RecordFailure.malformed) { try SessionFacts.open(adopted, broker.vault) }
    }

    @Test("A parent and its children need a refresh at the same time → one refresh serves the whole family")
    func refresh() async throws {
        let broker = try broker(.init(tokenLifetime: .seconds(600)))
        let parent = try await broker.signIn()
        let children = [
            try await child(broker, of: parent, "one"), try await child(broker, of: parent, "two", kind: Self.watch),
        ]
        broker.clock.advance(.seconds(700))
        let tokens = try await withThrowingTaskGroup(of: String.self) { group in
            for session in [parent] + children {
                for _ in 0..<10 {
                    group.addTask {
                        let live = try await broker.useCases.resumeSession.resume(session.token)
                        #expect(live.hasTokens)
                        return try await broker.useCases.refreshTokens.accessToken(for: live).token.reveal()
                    }
                }
            }
            return try await group.reduce(into: Set<String>()) { $0.insert($1) }
        }
        #expect(tokens.count == 1)
        #expect(broker.provider.refreshes == 1)
        // Several callers' upstreams refused the same token. One forced refresh serves all of them.
        let live = try await broker.useCases.resumeSession.resume(children[0].token)
        let refused = try await broker.useCases.refreshTokens.accessToken(for: live)
        broker.clock.advance(.seconds(60))
        _ = try await broker.useCases.refreshTokens.accessToken(for: live, insteadOf: refused)
        let again = try await broker.useCases.resumeSession.resume(children[1].token)
        _ = try await broker.useCases.refreshTokens.accessToken(for: again, insteadOf: refused)
        #expect(broker.provider.refreshes == 2)
    }

    @Test(
        "An upstream refuses every token → a child and its parent together force one refresh a minute"
    )
    func refusedAgain() async throws {
        let broker = try broker(.init(tokenLifetime: .seconds(3600)))
        let parent = try await broker.signIn()
        let live = try await broker.useCases.resumeSession.resume(try await child(broker, of: parent).token)
        let tokens = broker.useCases.refreshTokens
        let first = try await tokens.accessToken(for: live)
        for _ in 0..<5 {
            let refused = await problem { try await tokens.accessToken(for: live, insteadOf: first) }
            #expect(refused?.code == .notRefreshable)
            broker.clock.advance(.seconds(10))
        }
        #expect(broker.provider.refreshes == 0)
        broker.clock.advance(.seconds(10))
        let second = try await tokens.accessToken(for: live, insteadOf: first)
        #expect(second.version != first.version && broker.provider.refreshes == 1)
        // A caller with an older token gets the newer token that is already stored, so the provider is not called.
        #expect(try await tokens.accessToken(for: live, insteadOf: first).version == second.version)
        let refused = await problem { try await tokens.accessToken(for: live, insteadOf: second) }
        #expect(refused?.code == .notRefreshable && broker.provider.refreshes == 1)
        let own = try await broker.useCases.resumeSession.resume(parent.token)
        let parents = await problem { try await tokens.accessToken(for: own, insteadOf: second) }
        #expect(parents?.code == .notRefreshable && broker.provider.refreshes == 1)
    }

    @Test(
        "An upstream refused a newer token than the stored one → its session gets a new token, a child `not_refreshable`"
    )
    func olderThanRefused() async throws {
        let broker = try broker(.init(tokenLifetime: .seconds(3600)))
        let parent = try await broker.signIn()
        let child = try await broker.useCases.resumeSession.resume(try await child(broker, of: parent).token)
        let tokens = broker.useCases.refreshTokens
        let stored = try await tokens.accessToken(for: child)
        let refused = stored.successor
        let problem = await problem { try await tokens.accessToken(for: child, insteadOf: refused) }
        #expect(problem?.code == .notRefreshable && broker.provider.refreshes == 0)
        let own = try await broker.useCases.resumeSession.resume(parent.token)
        let newer = try await tokens.accessToken(for: own, insteadOf: refused)
        #expect(newer.token.reveal() != stored.token.reveal() && broker.provider.refreshes == 1)
    }

    @Test(
        "A session's row names itself or its own child as its parent → `parent_ended`, and the look-up of parents ends"
    )
    func corrupt() async throws {
        let broker = try broker()
        let parent = try await broker.signIn()
        let child = try await child(broker, of: parent)
        let row = try #require(try await broker.store.session(handle: child.session.handle))
        let lineage = try #require(row.lineage)
        for (digest, whose) in [(row.tokenDigest, row.tokenDigest), (lineage.parent, row.tokenDigest)] {
            let store = RelatedStore(broker.store, digest, Lineage(parent: whose, place: lineage.place))
            let other = try TestBroker(
                store: store, vault: broker.vault, clients: Self.clients(Self.policies), clock: broker.clock)
            let over = await problem { try await other.useCases.resumeSession.checkLives(row.tokenDigest) }
            #expect(over?.code == .sessionEnded && over?.reason == .parentEnded)
        }
        #expect(await ending(broker, parent) == nil)
        // An attacker who has the key seals such a record: the session is a child of itself.
        var facts = try SessionFacts.open(row, broker.vault)
        facts.child = ChildFacts(
            kind: Self.widget, name: "home", parent: row.tokenDigest, parentHandle: row.handle)
        let sealed = try broker.vault.seal(facts.record, as: .session, row: row.tokenDigest)
        let store = RelatedStore(
            broker.store, row.tokenDigest, Lineage(parent: row.tokenDigest, place: lineage.place), sealed)
        let other = try TestBroker(
            store: store, vault: broker.vault, clients: Self.clients(Self.policies), clock: broker.clock)
        let over = await problem { try await other.useCases.resumeSession.resume(child.token) }
        #expect(over?.code == .sessionEnded && over?.reason == .parentEnded)
    }

    @Test(
        "A parent ends → its children end at once, even if cached; on a replica without notices, within five seconds"
    )
    func parentEnds() async throws {
        let store = InMemoryStore()
        let broker = try broker(store: store)
        let replica = try TestBroker(
            store: store, vault: broker.vault, provider: broker.provider, clients: nil, clock: broker.clock)
        let parent = try await broker.signIn()
        let child = try await child(broker, of: parent)
        let live = try await broker.useCases.resumeSession.resume(child.token)
        _ = try await replica.useCases.resumeSession.resume(child.token)
        let heard = Mutex<[SessionNotice]>([])
        let subscription = broker.useCases.listenToSession.listen(live) { notice in heard.withLock { $0.append(notice) }
        }
        try await broker.useCases.endSession.logOut(parent.token)
        #expect(await ending(broker, child) == .parentEnded)
        #expect(heard.withLock { $0 } == [.ended(.parentEnded)])
        let row = try #require(try await store.session(handle: child.session.handle))
        #expect(row.endReason == .parentEnded)
        // The other replica has the child in its session cache for at most five seconds.
        broker.clock.advance(.seconds(5))
        #expect(await ending(replica, child) == .parentEnded)
        withExtendedLifetime(subscription) {}
    }

    @Test("A replica is notified of a parent's end → the streams of the parent's children get `parent_ended` at once")
    func told() async throws {
        let store = InMemoryStore()
        let broker = try broker(store: store)
        let replica = try TestBroker(
            store: store, vault: broker.vault, provider: broker.provider, clients: nil, clock: broker.clock)
        let replicas = TestSharedStore()
        ReplicaNotices(replica.context).listen(to: replicas)
        replicas.say(.hearing)
        let parent = try await broker.signIn()
        let child = try await child(broker, of: parent)
        let live = try await replica.useCases.resumeSession.resume(child.token)
        let heard = Mutex<[SessionNotice]>([])
        let subscription = replica.useCases.listenToSession.listen(live) { notice in
            heard.withLock { $0.append(notice) }
        }
        let own = try #require(live.family?.parent.tokenDigest)
        try await broker.useCases.endSession.logOut(parent.token)
        replicas.say(.ended([EndedSession(tokenDigest: own, reason: .loggedOut)]))
        #expect(heard.withLock { $0 } == [.ended(.parentEnded)])
        // The notice of the ending arrives at once, before the check that runs every second.
        #expect(await ending(replica, child) == .parentEnded)
        withExtendedLifetime(subscription) {}
        // Two sessions have listeners: the child, and its parent, because the parent's refreshes also concern the child.
        #expect(replica.context.notices.listenedTo.count == 2)
    }

    @Test(
        "A parent session lapses → its children and their event streams end too, even if the children's own times are longer"
    )
    func lapse() async throws {
        let broker = try broker()
        let parent = try await broker.signIn()
        let child = try await child(broker, of: parent, kind: Self.tv)
        let gone = try await broker.signIn(code: "code-2")
        let orphan = try await self.child(broker, of: gone, kind: Self.tv)
        broker.clock.advance(.seconds(31 * 86_400))
        #expect(await ending(broker, child) == .parentEnded)
        // The row is not buried yet, so that the ending can be undone if the clock turns out to be wrong.
        #expect(try await broker.store.session(handle: child.session.handle)?.endedAt == nil)
        #expect(await ending(broker, orphan) == .parentEnded)
        let waiting = try #require(try await broker.store.session(handle: child.session.handle)).tokenDigest
        let told = await problem { try await broker.useCases.resumeSession.waiting.checkLives(waiting) }
        #expect(told?.reason == .parentEnded)
    }

    @Test("A child with an idle time is used → its parent's idle end slides, too; the absolute ends stay")
    func slides() async throws {
        let broker = try broker()
        let parent = try await broker.signIn()
        let child = try await child(broker, of: parent, kind: Self.watch)
        // A call uses the child every ten days, for eighty days.
        for _ in 0..<8 {
            broker.clock.advance(.seconds(10 * 86_400))
            _ = try await broker.useCases.resumeSession.use(child.token)
            await broker.settled()
        }
        _ = try await broker.useCases.resumeSession.resume(parent.token)
        // The child was used, but it still ends when its parent ends.
        broker.clock.advance(.seconds(11 * 86_400))
        #expect(await ending(broker, parent) == .expired)
        #expect([.parentEnded, .expired].contains(await ending(broker, child)))
    }

    @Test(
        "A new child has an existing child's kind and name → it replaces this child; a seventeenth place → `too_many_sessions`"
    )
    func places() async throws {
        let broker = try broker()
        let parent = try await broker.signIn()
        let first = try await child(broker, of: parent, "home")
        let second = try await child(broker, of: parent, "home")
        #expect(await ending(broker, first) == .replaced)
        #expect(await ending(broker, second) == nil)
        // A child with the same name but another kind has another place.
        _ = try await child(broker, of: parent, "home", kind: Self.watch)
        #expect(await ending(broker, second) == nil)
        for number in 0..<(MakeChild.places - 2) { _ = try await child(broker, of: parent, "w\(number)") }
        let full = await problem { try await child(broker, of: parent, "one-more") }
        #expect(full?.code == .tooManySessions)
        _ = try await child(broker, of: parent, "home")
        #expect(await ending(broker, second) == .replaced)
        #expect(await ending(broker, parent) == nil)
    }

    @Test("A session has children → they do not count towards the cap of its user's sessions")
    func cap() async throws {
        var settings = BrokerSettings()
        settings.sessionsPerSubjectAndClient = 2
        let broker = try TestBroker(clients: Self.clients(Self.policies), settings: settings)
        let parent = try await broker.signIn(code: "c1")
        let children = [try await child(broker, of: parent, "one"), try await child(broker, of: parent, "two")]
        broker.clock.advance(.seconds(1))
        _ = try await broker.signIn(code: "c2")
        #expect(await ending(broker, parent) == nil)
        for child in children { #expect(await ending(broker, child) == nil) }
        broker.clock.advance(.seconds(1))
        _ = try await broker.signIn(code: "c3")
        #expect(await ending(broker, parent) == .sessionLimit)
        for child in children { #expect(await ending(broker, child) == .parentEnded) }
    }

    @Test(
        "A child session is requested with a wrong kind, no key or its parent's key, or beyond the limit of starts → refused"
    )
    func refused() async throws {
        let broker = try broker()
        let parent = try await broker.signIn()
        let unknown = await problem { try await child(broker, of: parent, kind: ChildKind(unchecked: "radio")) }
        #expect(unknown?.code == .clientNotAllowed)
        let web = await problem { try await child(broker, of: parent, kind: .web) }
        #expect(web?.code == .invalidRequest && web?.errors == [FieldFault("/kind", .notAllowed)])
        let none = try TestBroker()
        let childless = try await none.signIn()
        #expect(await problem { try await child(none, of: childless) }?.code == .clientNotAllowed)
        #expect(await problem { try await child(none, of: childless, kind: .web) }?.code == .clientNotAllowed)

        let live = try await broker.useCases.resumeSession.resume(parent.token)
        var facts = live.facts
        facts.thumbprint = live.row.subject
        let bound = LiveSession(row: live.row, facts: facts, binding: nil)
        let order = ChildOrder(kind: Self.widget, name: "home")
        let keyless = await problem { try await broker.useCases.makeChild.make(order, of: bound) }
        #expect(keyless?.code == .invalidRequest && keyless?.errors == [FieldFault("/jkt", .required)])
        var same = order
        same.thumbprint = live.row.subject
        let own = await problem { try await broker.useCases.makeChild.make(same, of: bound) }
        #expect(own?.errors == [FieldFault("/jkt", .notAllowed)])

        let ledger = ChargeLedger(ChargeLimits(loginsPerMinute: 2), monotonic: broker.clock.clock.monotonic)
        let address = try #require(IPAddress("192.0.2.1"))
        for _ in 0..<2 { _ = try await child(broker, of: parent, charge: Charge(address, in: ledger)) }
        let limited = await problem { try await child(broker, of: parent, charge: Charge(address, in: ledger)) }
        #expect(limited?.code == .rateLimited)
        let rows = try await broker.store.sessions(
            .subject(live.row.subject), .ended, after: nil, limit: 99, now: broker.clock.now)
        #expect(rows.count == 1)
    }

    @Test("A parent ends before its new child is stored → the child is refused, with the reason of the parent's end")
    func tooLate() async throws {
        let broker = try broker()
        let parent = try await broker.signIn()
        let live = try await broker.useCases.resumeSession.resume(parent.token)
        try await broker.useCases.endSession.logOut(parent.token)
        let order = ChildOrder(kind: Self.widget, name: "home")
        let late = await problem { try await broker.useCases.makeChild.make(order, of: live) }
        #expect(late?.code == .sessionEnded && late?.reason == .loggedOut)
    }

    @Test(
        "A child's kind is no longer configured → the child's calls get `client_not_allowed`, but it lives and can end itself"
    )
    func reconfigured() async throws {
        let store = InMemoryStore()
        let broker = try broker(store: store)
        let parent = try await broker.signIn()
        let child = try await child(broker, of: parent)
        let without = try TestBroker(
            store: store, vault: broker.vault,
            provider: ScriptedProvider(
                profile: ProviderProfile(
                    name: ProviderName(unchecked: "as"), kind: .oidc, displayName: "AS", issuer: "https://as.example",
                    clients: Self.clients([Self.watch: ChildPolicy()])), clock: broker.clock, script: .init()),
            clock: broker.clock)
        let problem = await problem { try await without.useCases.resumeSession.resume(child.token) }
        #expect(problem?.code == .clientNotAllowed)
        #expect(await ending(broker, child) == nil)
        // The child can still log itself out.
        try await without.useCases.endSession.logOut(child.token)
        #expect(await ending(without, parent) == nil)
        #expect(try await store.session(handle: child.session.handle)?.endReason == .loggedOut)
    }

    @Test(
        "All children have a kind that is no longer configured → each new child replaces one of them; a seventeenth is refused"
    )
    func renamedKind() async throws {
        let store = InMemoryStore()
        let broker = try broker(store: store)
        let parent = try await broker.signIn()
        for number in 0..<MakeChild.places {
            broker.clock.advance(.seconds(1))
            _ = try await child(broker, of: parent, "w\(number)")
        }
        let renamed = try TestBroker(
            store: store, vault: broker.vault,
            provider: ScriptedProvider(
                profile: ProviderProfile(
                    name: ProviderName(unchecked: "as"), kind: .oidc, displayName: "AS", issuer: "https://as.example",
                    clients: Self.clients([Self.watch: ChildPolicy()])), clock: broker.clock, script: .init()),
            clock: broker.clock)
        var made: [SignedIn] = []
        for number in 0..<MakeChild.places {
            made.append(try await child(renamed, of: parent, "n\(number)", kind: Self.watch))
        }
        #expect(
            await problem { try await child(renamed, of: parent, "more", kind: Self.watch) }?.code == .tooManySessions)
        for session in made { #expect(await ending(renamed, session) == nil) }
    }

    @Test(
        "A child's call needs a refresh, and the provider refuses the grant → the child gets `parent_ended`, as in its row"
    )
    func refusedGrant() async throws {
        let broker = try broker(.init(tokenLifetime: .seconds(600)))
        let parent = try await broker.signIn()
        let child = try await child(broker, of: parent)
        let live = try await broker.useCases.resumeSession.resume(child.token)
        broker.clock.advance(.seconds(700))
        broker.provider.script.withLock {
            $0.refresh = [.rejected(OAuthError(status: 400, code: "invalid_grant"))]
        }
        let heard = await problem { try await broker.useCases.refreshTokens.accessToken(for: live) }
        #expect(heard?.code == .sessionEnded && heard?.reason == .parentEnded)
        #expect(await ending(broker, child) == .parentEnded)
        #expect(await ending(broker, parent) == .grantRevoked)
    }

    @Test(
        "A user lists sessions → each child comes after its parent and expires no later; a child's handle ends only this child"
    )
    func lists() async throws {
        let broker = try broker()
        let first = try await broker.signIn(code: "c1")
        broker.clock.advance(.seconds(1))
        let second = try await broker.signIn(code: "c2")
        let own = try await child(broker, of: second, "one")
        let others = try await child(broker, of: first, "two", kind: Self.watch)
        let owner = try await broker.useCases.resumeSession.resume(second.token)
        let page = try await broker.useCases.listSessions.list(for: owner, cursor: nil, limit: 1)
        #expect(page.items.map(\.session.handle) == [second.session.handle, own.session.handle])
        #expect(page.items.map(\.current) == [true, false])
        let rest = try await broker.useCases.listSessions.list(for: owner, cursor: page.nextCursor, limit: 1)
        #expect(rest.items.map(\.session.handle) == [first.session.handle, others.session.handle])
        #expect(rest.nextCursor == nil)
        #expect(rest.items[1].session.expiresAt <= rest.items[0].session.expiresAt)
        #expect(rest.items[1].session.child?.parentHandle == first.session.handle)
        try await broker.useCases.endSession.end(handle: others.session.handle, ownedBy: owner)
        #expect(await ending(broker, others) == .loggedOutElsewhere)
        #expect(await ending(broker, first) == nil)
        try await broker.useCases.endSession.endOthers(of: owner)
        #expect(await ending(broker, first) == .loggedOutElsewhere)
        #expect(await ending(broker, own) == nil)
        let ended = try await broker.useCases.adminSessions.list(.init(), .ended, cursor: nil)
        #expect(ended.items.contains { $0.session.child?.kind == Self.watch && $0.reason == .loggedOutElsewhere })
    }

    @Test("A parent session's stored identity changes → its child shows the new identity, too")
    func inherited() async throws {
        let broker = try broker()
        let parent = try await broker.signIn()
        let child = try await child(broker, of: parent)
        let row = try #require(try await broker.store.session(handle: parent.session.handle))
        var facts = try SessionFacts.open(row, broker.vault)
        facts.identity = [("email", .string("new@example.org"))]
        _ = try await broker.store.commitRefresh(
            RefreshCommit(
                tokenDigest: row.tokenDigest, tokenVersion: row.tokenVersion, tokens: try #require(row.tokens),
                facts: try broker.vault.seal(facts.record, as: .session, row: row.tokenDigest), tokenExpiresAt: nil,
                refreshable: true, expiresAt: nil))
        broker.clock.advance(.seconds(6))
        let view = try await broker.useCases.resumeSession.resume(child.token).view
        #expect(view.identity.first { $0.name == "email" }?.value.string == "new@example.org")
        #expect(view.child?.kind == Self.widget)
    }

    @Test("A parent's row has a newer format than the process can read → 503 for its children, and all of them live on")
    func unreadable() async throws {
        let broker = try broker()
        let parent = try await broker.signIn()
        let child = try await child(broker, of: parent)
        let row = try #require(try await broker.store.session(handle: parent.session.handle))
        var record = try broker.vault.open(row.facts, as: .session, row: row.tokenDigest)
        record[0] = 9
        _ = try await broker.store.commitRefresh(
            RefreshCommit(
                tokenDigest: row.tokenDigest, tokenVersion: row.tokenVersion, tokens: try #require(row.tokens),
                facts: try broker.vault.seal(record, as: .session, row: row.tokenDigest), tokenExpiresAt: nil,
                refreshable: true, expiresAt: nil))
        broker.clock.advance(.seconds(6))
        let problem = await problem { try await broker.useCases.resumeSession.resume(child.token) }
        #expect(problem?.code == .storeUnavailable)
        #expect(try await broker.store.session(handle: child.session.handle)?.endedAt == nil)
    }
}
