import BrokerTestSupport
import BrokerVault
import Synchronization
import Testing

@testable import Broker

/// Hand-overs to a browser that already has a session.
///
/// The result depends on that session's user, even if its client was removed from the configuration.
@Suite("Sessions that a web view holds", .timeLimit(.minutes(1)))
struct HeldSessionTests {
    private static let own = "https://auth.example.com"
    private static let secret = Secret(String(repeating: "s", count: 43))

    private static func client(_ name: String, hasWeb: Bool) -> ClientProfile {
        var client = ClientProfile(
            name: ClientName(unchecked: name), login: .both,
            redirectURIs: [RedirectURI(TestBroker.redirect)].compactMap { $0 }, scope: ["openid"], nonce: true)
        if hasWeb {
            var web = ChildPolicy()
            web.origins = [own]
            client.children = [.web: web]
        }
        return client
    }

    private static func broker(_ store: InMemoryStore, like other: TestBroker?, clients: [ClientProfile]) throws
        -> TestBroker
    {
        guard let other else { return try TestBroker(store: store, clients: clients) }
        return try TestBroker(store: store, vault: other.vault, clients: clients, clock: other.clock)
    }

    private func signIn(_ broker: TestBroker, _ client: String, code: String) async throws -> SignedIn {
        let login = try await broker.start(client)
        return try await broker.forward(broker.callback(login, code: code), login.loginToken)
    }

    private func handOver(_ broker: TestBroker, _ parent: SignedIn, held: [Secret] = []) async throws -> SignedIn {
        let live = try await broker.useCases.resumeSession.resume(parent.token)
        let order = HandoverOrder(
            origin: Self.own, path: "/", challenge: broker.vault.digest(Self.secret))
        let url = try await broker.useCases.handOver.begin(order, of: live).url.reveal()
        return try await broker.useCases.handOver.spend(
            Secret(String(url.suffix(43))), verifier: Self.secret, held: held
        ).child
    }

    @Test(
        "A browser has a session of a removed client or kind → its user's hand-over replaces it; another user: `other_session`",
        arguments: [false, true])
    func unserved(clientLeft: Bool) async throws {
        let store = InMemoryStore()
        let before = try Self.broker(
            store, like: nil, clients: [Self.client("ios", hasWeb: true), Self.client("tv", hasWeb: true)])
        let old = try await handOver(before, try await signIn(before, "tv", code: "c1"))
        let now = [Self.client("ios", hasWeb: true)] + (clientLeft ? [] : [Self.client("tv", hasWeb: false)])
        let broker = try Self.broker(store, like: before, clients: now)
        let refused = await problem { try await broker.useCases.resumeSession.resume(old.token) }
        #expect(refused?.code == (clientLeft ? .providerUnavailable : .clientNotAllowed))

        broker.provider.script.withLock { $0.subject = "user-2" }
        let stranger = try await signIn(broker, "ios", code: "c2")
        let other = await problem { try await handOver(broker, stranger, held: [old.token]) }
        #expect(other?.code == .otherSession)
        #expect(try await store.session(handle: old.session.handle)?.endedAt == nil)

        broker.provider.script.withLock { $0.subject = "user-1" }
        let parent = try await signIn(broker, "ios", code: "c3")
        let made = try await handOver(broker, parent, held: [old.token])
        #expect(made.session.handle != old.session.handle)
        #expect(try await store.session(handle: old.session.handle)?.endReason == .replaced)
        // If the browser's session has ended, the hand-over is allowed, whoever was its user.
        _ = try await handOver(broker, stranger, held: [old.token])
    }

    @Test(
        "A browser has the cookie of an app's own session, and the client was removed → a hand-over does not replace this session"
    )
    func appsOwn() async throws {
        let store = InMemoryStore()
        let before = try Self.broker(
            store, like: nil, clients: [Self.client("ios", hasWeb: true), Self.client("tv", hasWeb: true)])
        let app = try await signIn(before, "tv", code: "c1")
        let broker = try Self.broker(store, like: before, clients: [Self.client("ios", hasWeb: true)])
        _ = try await handOver(broker, try await signIn(broker, "ios", code: "c2"), held: [app.token])
        #expect(try await store.session(handle: app.session.handle)?.endedAt == nil)
    }
}
