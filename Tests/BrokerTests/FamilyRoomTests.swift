import BrokerTestSupport
import BrokerVault
import Testing

@testable import Broker

/// The places of a session's children, and the children that end because another child needs the place (guarantee 10).
@Suite(.timeLimit(.minutes(1))) struct FamilyRoomTests {
    private static let widget = ChildKind(unchecked: "widget")
    private static let watch = ChildKind(unchecked: "watch")

    private func broker(_ kind: ChildKind, like other: TestBroker? = nil) throws -> TestBroker {
        var client = ClientProfile(
            name: ClientName(unchecked: "ios"), login: .both,
            redirectURIs: [RedirectURI(TestBroker.redirect)].compactMap { $0 }, scope: ["openid", "email"], nonce: true)
        client.children = [kind: ChildPolicy(), .web: ChildPolicy()]
        return try TestBroker(
            store: other?.store, vault: other?.vault, clients: [client], clock: other?.clock ?? TestClock())
    }

    private func child(_ broker: TestBroker, of parent: SignedIn, _ kind: ChildKind, _ name: String) async throws {
        let live = try await broker.useCases.resumeSession.resume(parent.token)
        _ = try await broker.useCases.makeChild.make(ChildOrder(kind: kind, name: name), of: live)
    }

    @Test(
        "A web view's child and children of a removed kind fill all places → new children replace those of the removed kind first"
    )
    func pageStays() async throws {
        let broker = try broker(Self.widget)
        let parent = try await broker.signIn()
        let page = broker.vault.digest(Secret("a page's token"))
        try await broker.useCases.makeChild.insertWeb(
            ChildOrder(kind: .web, name: "page"), token: page,
            of: try await broker.useCases.resumeSession.resume(parent.token), ChildPolicy())
        for number in 1..<MakeChild.places {
            broker.clock.advance(.seconds(1))
            try await child(broker, of: parent, Self.widget, "w\(number)")
        }
        let renamed = try self.broker(Self.watch, like: broker)
        try await child(renamed, of: parent, Self.watch, "first")
        #expect(try await renamed.store.session(tokenDigest: page)?.endedAt == nil)
        // When all children of the removed kind are gone, the page's child has to give up its place to a child that the app
        // requests.
        for number in 2..<MakeChild.places { try await child(renamed, of: parent, Self.watch, "n\(number)") }
        #expect(try await renamed.store.session(tokenDigest: page)?.endedAt == nil)
        try await child(renamed, of: parent, Self.watch, "last")
        #expect(try await renamed.store.session(tokenDigest: page)?.endReason == .sessionLimit)
    }
}
