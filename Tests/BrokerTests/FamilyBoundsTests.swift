import BrokerTestSupport
import BrokerVault
import Testing

@testable import Broker

/// The limits of child sessions: the times when they end, and the rights that only the app's own session has (guarantee 10).
@Suite("Limits of child sessions", .timeLimit(.minutes(1))) struct FamilyBoundsTests {
    private static let widget = ChildKind(unchecked: "widget")
    private static let day = 86_400
    /// A policy that gives children a longer idle time than the app's session has.
    private static let policy = ChildPolicy(lifetimes: SessionLifetimes(idle: .seconds(60 * day)))

    private let broker: TestBroker

    init() throws {
        var client = ClientProfile(
            name: ClientName(unchecked: "ios"), login: .both,
            redirectURIs: [RedirectURI(TestBroker.redirect)].compactMap { $0 }, scope: ["openid", "email"], nonce: true)
        client.children = [Self.widget: Self.policy, .web: Self.policy]
        broker = try TestBroker(clients: [client])
    }

    private func live(_ token: Secret) async throws -> LiveSession {
        try await broker.useCases.resumeSession.resume(token)
    }

    private func widget(of parent: SignedIn) async throws -> SignedIn {
        try await broker.useCases.makeChild.make(
            ChildOrder(kind: Self.widget, name: "home"), of: try await live(parent.token))
    }

    private func page(of parent: SignedIn) async throws -> Secret {
        let token = try broker.vault.randomToken()
        try await broker.useCases.makeChild.insertWeb(
            ChildOrder(kind: .web, name: "page"), token: broker.vault.digest(token), of: try await live(parent.token),
            Self.policy)
        return token
    }

    @Test(
        "Only a web view's child session is used → the app's session still lapses after thirty idle days, and the child ends too"
    )
    func pageDoesNotKeepTheAppAlive() async throws {
        let parent = try await broker.signIn()
        let page = try await page(of: parent)
        for _ in 0..<2 {
            broker.clock.advance(.seconds(10 * Self.day))
            _ = try await broker.useCases.resumeSession.use(page)
            await broker.settled()
        }
        #expect(try await broker.row(of: parent).lastUsedAt == TestClock.start)
        let own = try #require(try await broker.store.session(tokenDigest: broker.vault.digest(page)))
        #expect(own.lastUsedAt == broker.clock.now)
        broker.clock.advance(.seconds(10 * Self.day))
        #expect(await problem { try await live(parent.token) }?.reason == .idleExpired)
        #expect(await problem { try await live(page) }?.reason == .parentEnded)
    }

    @Test(
        "A child is made when its parent is a day old → it ends with its parent, although its own lifetime would be longer"
    )
    func absoluteEnd() async throws {
        let parent = try await broker.signIn()
        broker.clock.advance(.seconds(Self.day))
        let child = try await widget(of: parent)
        #expect(child.session.expiresAt == parent.session.expiresAt)
        let row = try #require(try await broker.store.session(handle: child.session.handle))
        #expect(row.expiresAt == (try await broker.row(of: parent)).expiresAt)
    }

    @Test(
        "A child's call needs the user's presence → `presence_required`, with a note that the parent has to make the call"
    )
    func presence() async throws {
        let parent = try await broker.signIn()
        let child = try await live(try await widget(of: parent).token)
        let refusal = await problem { try await PresenceCheck(broker.context).judge(.none, of: child) }
        #expect(refusal?.code == .presenceRequired)
        #expect(refusal?.presence == PresenceRefusal(.required, isBound: false, isOfParent: true))
    }

    @Test(
        "A child session's facts are written → the record has format 3; a record has a damaged thumbprint → malformed")
    func record() async throws {
        let child = try await widget(of: try await broker.signIn())
        let facts = try await live(child.token).facts
        #expect(facts.record.first == 3)
        let own = try #require(facts.child)
        var writer = RecordWriter(format: 3)
        writer.optional("a thumbprint")
        for text in [own.kind.text, own.name, Base64URL.encode(own.parent.bytes), own.parentHandle.text] {
            writer.string(text)
        }
        var reader = try RecordReader(writer.bytes, format: 3)
        #expect(throws: RecordFailure.malformed) { try ChildFacts.read(&reader) }
    }

    @Test(
        "Two children's lineages (parent and place) are compared → equal only if both the parents and the places are equal"
    )
    func lineages() {
        let digests = (0..<3).map { broker.vault.digest(Secret("\($0)")) }
        let lineage = Lineage(parent: digests[0], place: digests[1])
        #expect(lineage == Lineage(parent: digests[0], place: digests[1]))
        #expect(lineage != Lineage(parent: digests[0], place: digests[2]))
        #expect(lineage != Lineage(parent: digests[2], place: digests[1]))
    }

    @Test(
        "Another replica has ended a parent that is still cached here → a new child is refused, with the parent's end reason"
    )
    func endedElsewhere() async throws {
        let parent = try await broker.signIn()
        let cached = try await live(parent.token)
        let other = try TestBroker(
            store: broker.store, vault: broker.vault, provider: broker.provider, clock: broker.clock)
        try await other.useCases.endSession.logOut(parent.token)
        let refusal = await problem {
            try await broker.useCases.makeChild.make(ChildOrder(kind: Self.widget, name: "home"), of: cached)
        }
        #expect(refusal?.code == .sessionEnded && refusal?.reason == .loggedOut)
    }
}
