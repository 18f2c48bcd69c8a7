import BrokerVault
import Testing

@testable import Broker

/// The session cache, which keeps its entries in two generations (tables of different age).
///
/// Ended sessions are removed from both generations, entries stay for at most 5 s, and their number is bounded.
@Suite(.timeLimit(.minutes(1))) struct SessionCacheTests {
    /// Sessions as a store returns them.
    private func sessions(_ count: Int) async throws -> [LiveSession] {
        let broker = try TestBroker()
        var all: [LiveSession] = []
        for index in 0..<count {
            let signedIn = try await broker.signIn(code: "code-\(index)")
            let digest = broker.vault.digest(signedIn.token.bytes())
            all.append(try await broker.useCases.resumeSession.resume(digest))
        }
        return all
    }

    private func keep(_ session: LiveSession, in cache: SessionCache, at moment: Duration) {
        cache.insert(session, loadedAt: moment, generation: cache.lookUp(session.tokenDigest, at: moment).generation)
    }

    @Test("A session ends → it is removed from both generations of the cache (SEC-129)")
    func olderGeneration() async throws {
        let session = try #require(try await sessions(1).first)
        let cache = SessionCache()
        // After five seconds, the younger generation becomes the older one. This session was kept in the younger one, so it is
        // still found.
        _ = cache.lookUp(session.tokenDigest, at: .seconds(5))
        keep(session, in: cache, at: .seconds(9))
        #expect(cache.lookUp(session.tokenDigest, at: .seconds(11)).session != nil)
        cache.remove([session.tokenDigest])
        #expect(cache.lookUp(session.tokenDigest, at: .seconds(11)).session == nil)
        #expect(cache.count == 0)
    }

    @Test("A cached session is used often → it lives in the cache no longer than an unused one (SEC-129)")
    func slides() async throws {
        let session = try #require(try await sessions(1).first)
        let cache = SessionCache()
        keep(session, in: cache, at: .seconds(100))
        for second in 101...104 {
            #expect(cache.lookUp(session.tokenDigest, at: .seconds(second)).session != nil)
            cache.update(session.tokenDigest) { $0.lastUsedAt = $0.lastUsedAt.advanced(by: .seconds(1)) }
        }
        #expect(cache.lookUp(session.tokenDigest, at: .seconds(105)).session == nil)
    }

    @Test(
        "More sessions are loaded than there is room for → the cache stays full, and has the sessions that were loaded last"
    )
    func capacity() async throws {
        let all = try await sessions(5)
        let cache = SessionCache(capacity: 2)
        for session in all {
            keep(session, in: cache, at: .seconds(100))
            #expect(cache.count <= 2)
            #expect(cache.lookUp(session.tokenDigest, at: .seconds(100)).session != nil)
        }
        // The entries of the older generation count, too.
        for (session, second) in zip(all, 104...108) {
            keep(session, in: cache, at: .seconds(second))
            #expect(cache.count <= 2)
        }
    }

    @Test(
        "A load into the cache began before its session ended → not cached; a load began after the end → cached (SEC-129)"
    )
    func loads() async throws {
        let session = try #require(try await sessions(1).first)
        let cache = SessionCache()
        let (_, before) = cache.lookUp(session.tokenDigest, at: .seconds(100))
        cache.remove([session.tokenDigest])
        cache.insert(session, loadedAt: .seconds(100), generation: before)
        #expect(cache.count == 0)
        keep(session, in: cache, at: .seconds(100))
        #expect(cache.count == 1)
    }
}
