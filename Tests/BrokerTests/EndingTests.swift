import BrokerStore
import Synchronization
import Testing

@testable import Broker

/// An ending is carried out whole, and everybody concerned hears of it.
@Suite struct EndingTests {
    @Test(
        "A logout token whose work was broken off takes effect when it comes again (SEC-66, SEC-67)",
        .timeLimit(.minutes(1)), arguments: 0..<6)
    func interruptedLogoutToken(_ step: Int) async throws {
        let store = InMemoryStore()
        let broker = try TestBroker(store: store)
        let sessions = [try await broker.signIn(code: "c1"), try await broker.signIn(code: "c2")]
        let name = ProviderName(unchecked: "as")
        store.refuse(after: step)
        let first = await problem {
            try await broker.useCases.backchannelLogout.receive(provider: name, token: Secret("jti-1"))
        }
        store.refuse(after: nil)
        if let first {
            #expect(first.code == .storeUnavailable)
            try await broker.useCases.backchannelLogout.receive(provider: name, token: Secret("jti-1"))
        }
        for session in sessions {
            #expect(
                await problem { try await broker.useCases.resumeSession.resume(session.token) }?.reason
                    == .providerLogout)
        }
        let again = await problem {
            try await broker.useCases.backchannelLogout.receive(provider: name, token: Secret("jti-1"))
        }
        #expect(again?.code == .invalidRequest)
    }

    @Test("What the sweeper ends is told to listeners, cache and metrics", .timeLimit(.minutes(1)))
    func swept() async throws {
        let broker = try TestBroker(script: .init(tokenLifetime: nil))
        let session = try await broker.signIn()
        let live = try await broker.useCases.resumeSession.resume(session.token)
        let heard = Mutex<[SessionNotice]>([])
        let subscription = broker.useCases.notices.subscribe(live.token) { notice in
            heard.withLock { $0.append(notice) }
        }
        #expect(broker.context.cache.count == 1)
        let sweeper = Sweeper(broker.context, owner: "one")
        broker.clock.advance(.seconds(31 * 86_400))
        _ = try await sweeper.sweep()
        #expect(heard.withLock { $0 } == [.ended(.idleExpired)])
        #expect(broker.context.cache.count == 0)
        let counted = broker.events.all.contains {
            if case .sessionEnded(.idleExpired, 1) = $0 { true } else { false }
        }
        #expect(counted)
        withExtendedLifetime(subscription) {}
    }
}
