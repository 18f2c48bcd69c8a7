import Synchronization
import Testing

@testable import Broker

/// What is heard of other replicas closes the cache, empties it, and reaches listeners (guarantee 6).
@Suite struct ReplicaNoticesTests {
    /// Other replicas, as a test plays them.
    private final class Replicas: EndingNotices {
        private let handler = Mutex<(@Sendable (EndingNotice) -> Void)?>(nil)

        func listen(_ handler: @escaping @Sendable (EndingNotice) -> Void) { self.handler.withLock { $0 = handler } }
        func say(_ notice: EndingNotice) { handler.withLock { $0 }?(notice) }
    }

    @Test("Nothing is cached while nothing is heard; what is heard again finds an empty cache (SEC-129)")
    func deafness() async throws {
        let broker = try TestBroker()
        let session = try await broker.signIn()
        func use() async throws -> Int {
            _ = try await broker.useCases.resumeSession.resume(session.token)
            return broker.context.cache.count
        }
        #expect(try await use() == 1)
        let replicas = Replicas()
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

    @Test("An ending elsewhere is out of the cache at once, and its listeners hear the reason")
    func endings() async throws {
        let broker = try TestBroker()
        let sessions = [try await broker.signIn(code: "c1"), try await broker.signIn(code: "c2")]
        let replicas = Replicas()
        ReplicaNotices(broker.context).listen(to: replicas)
        replicas.say(.hearing)
        var tokens: [Digest] = []
        for session in sessions {
            tokens.append(try await broker.useCases.resumeSession.resume(session.token).token)
        }
        #expect(broker.context.cache.count == 2)
        let heard = Mutex<[SessionNotice]>([])
        let subscriptions = tokens.map { token in
            broker.useCases.notices.subscribe(token) { notice in heard.withLock { $0.append(notice) } }
        }
        replicas.say(.ended([EndedSession(token: tokens[0], reason: .loggedOut)]))
        #expect(broker.context.cache.count == 1)
        #expect(heard.withLock { $0 } == [.ended(.loggedOut)])
        withExtendedLifetime(subscriptions) {}
    }
}
