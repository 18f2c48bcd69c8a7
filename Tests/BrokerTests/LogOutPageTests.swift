import BrokerTestSupport
import Synchronization
import Testing

@testable import Broker

/// Log-outs that open the provider's own log-out page, and the logout tokens that the provider sends afterwards.
@Suite(.timeLimit(.minutes(2))) struct LogOutPageTests {
    private let page = "https://as.example/logout"

    private func told(_ broker: TestBroker) -> [Int] {
        broker.provider.script.withLock { [$0.revoked, $0.sessionsEnded] }
    }

    private func lives(_ broker: TestBroker, _ session: SignedIn) async -> Bool {
        await problem { try await broker.useCases.resumeSession.resume(session.token) } == nil
    }

    @Test(
        "A browser logs out, but its session is unknown or ended, or the provider has no log-out page → the browser gets no page"
    )
    func none() async throws {
        let broker = try TestBroker()
        let end = broker.useCases.endSession
        #expect(try await end.logOutInBrowser(broker.vault.randomToken()) == nil)
        #expect(try await end.logOutInBrowser(Secret("junk")) == nil)
        let session = try await broker.signIn()
        #expect(try await end.logOutInBrowser(session.token) == nil)
        #expect(await !lives(broker, session))
        // If there is no log-out page, only a call of the outbox can end the provider's session.
        _ = try await Revocations(broker.context).work()
        #expect(told(broker) == [1, 1])
        broker.provider.script.withLock { $0.logOutPage = page }
        #expect(try await end.logOutInBrowser(session.token) == nil)
    }

    @Test(
        "A log-out gets a provider's page → the broker ends its session and revokes tokens; the page ends the provider's session"
    )
    func pages() async throws {
        let broker = try TestBroker(script: .init(logOutPage: page))
        broker.clock.hold(.seconds(2))
        let session = try await broker.signIn()
        let first = try await broker.useCases.endSession.logOutInBrowser(session.token)
        #expect(first?.reveal().hasPrefix(page + "?state=") == true)
        let ended = await problem { try await broker.useCases.resumeSession.resume(session.token) }
        #expect(ended?.code == .sessionEnded && ended?.reason == .loggedOut)
        _ = try await Revocations(broker.context).work()
        #expect(told(broker) == [1, 0])
        // Each address of a log-out page has a new `state`.
        let again = try await broker.useCases.endSession.logOutInBrowser(broker.signIn(code: "c2").token)
        #expect(again != nil && again?.reveal() != first?.reveal())
    }

    @Test("Eight log-outs of one session at the same time → one of them gets the provider's page")
    func race() async throws {
        let broker = try TestBroker(script: .init(logOutPage: page))
        broker.clock.hold(.seconds(2))
        let session = try await broker.signIn()
        let pages = await withTaskGroup(of: Bool.self) { group in
            for _ in 0..<8 {
                group.addTask {
                    (try? await broker.useCases.endSession.logOutInBrowser(session.token)).flatMap { $0 } != nil
                }
            }
            return await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
        }
        #expect(pages == 1)
    }

    @Test(
        "The provider hangs while the broker asks for its log-out page → the log-out waits two seconds, and gets no page",
        .timeLimit(.minutes(1))
    )
    func hangs() async throws {
        let broker = try TestBroker(script: .init(logOutPage: page, logOutPageHangs: true))
        let session = try await broker.signIn()
        broker.provider.hanging.close()
        defer { broker.provider.hanging.open() }
        _ = broker.clock.takeLongestWait()
        let ending = Task { try await broker.useCases.endSession.logOutInBrowser(session.token) }
        try await eventually("the call for the page hangs at the provider") { broker.provider.hanging.waiting > 0 }
        await broker.settled()
        broker.clock.advance(.seconds(2))
        #expect(try await ending.value == nil)
        // The test's clock makes waits instant, but records their length.
        #expect(broker.clock.takeLongestWait() == .seconds(2))
        #expect(await !lives(broker, session))
    }

    @Test(
        "One of two devices logs out, and a logout token for its `sid` comes → the other device's session stays (SEC-68)"
    )
    func twoDevices() async throws {
        let broker = try TestBroker(script: .init(sid: "sid-1", logOutPage: page))
        broker.clock.hold(.seconds(2))
        let gone = try await broker.signIn(code: "c1")
        broker.provider.script.withLock { $0.sid = "sid-2" }
        let other = try await broker.signIn(code: "c2")
        broker.provider.script.withLock { $0.sid = nil }
        let plain = try await broker.signIn(code: "c3")
        #expect(try await broker.useCases.endSession.logOutInBrowser(gone.token) != nil)
        broker.provider.script.withLock { $0.logout = (nil, "sid-1", nil) }
        let name = ProviderName(unchecked: "as")
        try await broker.useCases.backchannelLogout.receive(provider: name, token: Secret("jti-1"))
        #expect(await lives(broker, other))
        #expect(await lives(broker, plain))
        // The logout token has a sub next to the sid. So the user's sessions from an id_token without a sid end, too. Sessions
        // with another sid stay.
        broker.provider.script.withLock { $0.logout = ("user-1", "sid-1", nil) }
        try await broker.useCases.backchannelLogout.receive(provider: name, token: Secret("jti-2"))
        #expect(await lives(broker, other))
        #expect(await !lives(broker, plain))
    }

    @Test("A logout token names clients in its `aud` → it ends only sessions of these clients")
    func clients() async throws {
        let broker = try TestBroker()
        let session = try await broker.signIn()
        let name = ProviderName(unchecked: "as")
        broker.provider.script.withLock { $0.logout = ("user-1", nil, [ClientName(unchecked: "strict")]) }
        try await broker.useCases.backchannelLogout.receive(provider: name, token: Secret("jti-1"))
        #expect(await lives(broker, session))
        broker.provider.script.withLock { $0.logout = ("user-1", nil, []) }
        let refused = await problem {
            try await broker.useCases.backchannelLogout.receive(provider: name, token: Secret("jti-2"))
        }
        #expect(refused?.code == .invalidRequest)
        // Each order of the clients in the logout token has the same result.
        let (ios, strict) = (ClientName(unchecked: "ios"), ClientName(unchecked: "strict"))
        for (number, clients) in [[ios], [strict, ios], [ios, strict]].enumerated() {
            let session = try await broker.signIn(code: "c\(number)")
            broker.provider.script.withLock { $0.logout = ("user-1", nil, clients) }
            try await broker.useCases.backchannelLogout.receive(provider: name, token: Secret("jti-a\(number)"))
            #expect(await !lives(broker, session), "\(clients)")
        }
    }
}
