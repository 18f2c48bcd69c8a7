import BrokerTestSupport
import BrokerVault
import Synchronization
import Testing

@testable import Broker

/// The rights of a session over the user's other sessions, and the right of an app to get an access token.
@Suite(.timeLimit(.minutes(2))) struct OwnershipTests {
    private static let watch = ChildKind(unchecked: "watch")

    private func broker(
        own: ProviderProfile.Ownership, limit: Int = 1000, handsOut: Bool = false
    ) throws -> TestBroker {
        var client = ClientProfile(
            name: ClientName(unchecked: "ios"), redirectURIs: [RedirectURI(TestBroker.redirect)].compactMap { $0 },
            scope: ["openid"])
        client.handsOutAccessToken = handsOut
        client.children = [Self.watch: ChildPolicy()]
        let clock = TestClock()
        let profile = ProviderProfile(
            name: ProviderName(unchecked: "as"), kind: .oidc, displayName: "AS", issuer: "https://as.example",
            callbackIssuer: "https://as.example", own: own, clients: [client])
        var settings = BrokerSettings()
        settings.sessionsPerShopAndClient = limit
        settings.sessionsPerSubjectAndClient = 1
        return try TestBroker(provider: ScriptedProvider(profile: profile, clock: clock), settings: settings)
    }

    private func signIn(_ broker: TestBroker, _ code: String, replacing: Secret? = nil) async throws -> SignedIn {
        let login = try await broker.start()
        return try await broker.forward(broker.callback(login, code: code), login.loginToken, session: replacing)
    }

    @Test("A provider has `own: device` → a session lists and ends only itself")
    func device() async throws {
        let broker = try broker(own: .device)
        let first = try await signIn(broker, "c1")
        let second = try await signIn(broker, "c2")
        let cases = broker.useCases
        let owner = try await cases.resumeSession.resume(first.token)
        let page = try await cases.listSessions.list(for: owner, cursor: nil)
        #expect(page.items.map(\.session.handle) == [first.session.handle] && page.items[0].current)
        #expect(
            await problem { try await cases.endSession.end(handle: second.session.handle, ownedBy: owner) }?.code
                == .notFound)
        try await cases.endSession.endOthers(of: owner)
        _ = try await cases.resumeSession.resume(second.token)
        try await cases.endSession.end(handle: first.session.handle, ownedBy: owner)
        #expect(await problem { try await cases.resumeSession.resume(first.token) }?.code == .sessionEnded)
    }

    @Test(
        "A provider has `own: device` → a session ends its own children, but not the sessions of the user's other devices"
    )
    func children() async throws {
        let broker = try broker(own: .device)
        let cases = broker.useCases
        let own = try await cases.resumeSession.resume(try await signIn(broker, "c1").token)
        let other = try await cases.resumeSession.resume(try await signIn(broker, "c2").token)
        let order = ChildOrder(kind: Self.watch, name: "wrist")
        let (lost, foreign) = (
            try await cases.makeChild.make(order, of: own), try await cases.makeChild.make(order, of: other)
        )
        let listed = try await cases.listSessions.list(for: own, cursor: nil).items.map(\.session.handle)
        #expect(listed == [own.row.handle, lost.session.handle])
        let refused = await problem {
            try await cases.endSession.end(handle: foreign.session.handle, ownedBy: own)
        }
        #expect(refused?.code == .notFound)
        try await cases.endSession.end(handle: lost.session.handle, ownedBy: own)
        #expect(await problem { try await cases.resumeSession.resume(lost.token) }?.reason == .loggedOutElsewhere)
        _ = try await cases.resumeSession.resume(foreign.token)
    }

    @Test(
        "With `own: device`, a user has as many sessions as allowed → a login is refused, unless it replaces one of them"
    )
    func cap() async throws {
        let broker = try broker(own: .device, limit: 2)
        let first = try await signIn(broker, "c1")
        let second = try await signIn(broker, "c2")
        let login = try await broker.start()
        let url = broker.callback(login, code: "c3")
        #expect(await problem { try await broker.forward(url, login.loginToken) }?.code == .tooManySessions)
        #expect(await problem { try await broker.forward(url, login.loginToken) }?.code == .tooManySessions)
        #expect(broker.provider.grants == 3)
        _ = try await broker.useCases.resumeSession.resume(first.token)
        _ = try await signIn(broker, "c4", replacing: second.token)
    }

    @Test(
        "An app asks for its access token → `client_not_allowed`; if the client may hand it out → the token, and one event"
    )
    func handOut() async throws {
        let closed = try broker(own: .subject)
        let refused = try await signIn(closed, "c1")
        #expect(
            await problem { try await closed.useCases.handOut(refused.token) }?.code == .clientNotAllowed)
        let open = try broker(own: .subject, handsOut: true)
        let session = try await signIn(open, "c1")
        let access = try await open.useCases.handOut(session.token)
        #expect(access.token.reveal() == "at-1" && access.credential == .bearer)
        let told = open.events.all.filter { if case .accessTokenHandedOut = $0 { true } else { false } }
        #expect(told.count == 1)
        #expect(await problem { try await open.useCases.handOut(Secret("x")) }?.code == .sessionRequired)
    }
}
