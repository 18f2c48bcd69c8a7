import Broker
import BrokerTestSupport
import Synchronization

/// A store that several replicas share.
///
/// The test chooses the store's time, the sessions' versions, and the notices of other replicas.
final class TestSharedStore: SharedStore {
    private let clock: TestClock
    /// The lead of the store's clock over the test's clock.
    private let ahead: Duration
    let isAway = Mutex(false)
    /// Whether the database's server runs on another machine.
    let isOther = Mutex(false)
    private let handler = Mutex<(@Sendable (EndingNotice) -> Void)?>(nil)
    let known = Mutex<[Digest: Int64]>([:])
    let asked = Mutex<[[Digest]]>([])
    /// The sessions that have a presence key.
    let present = Mutex<Set<Digest>>([])

    init(clock: TestClock = TestClock(), ahead: Duration = .zero) {
        self.clock = clock
        self.ahead = ahead
    }

    func time() async throws(StoreFailure) -> WallTime {
        if isAway.withLock({ $0 }) { throw .unavailable("away") }
        return clock.now.advanced(by: ahead)
    }

    func isElsewhere() async throws(StoreFailure) -> Bool { isOther.withLock { $0 } }

    func listen(_ handler: @escaping @Sendable (EndingNotice) -> Void) { self.handler.withLock { $0 = handler } }

    /// Delivers a notice of another replica to the broker.
    func say(_ notice: EndingNotice) { handler.withLock { $0 }?(notice) }

    /// The used proofs, with the time until when the store keeps the record of each.
    private let proofs = Mutex<[Digest: WallTime]>([:])
    /// A gate that delays the calls that use up a proof, as a slow store does.
    let gate = Gate()

    func takeProof(_ name: Digest, until: WallTime) async throws(StoreFailure) -> Bool {
        await gate.pass()
        if isAway.withLock({ $0 }) { throw .unavailable("away") }
        let now = clock.now
        return proofs.withLock { proofs in
            if let end = proofs[name], end > now { return false }
            proofs[name] = until
            return true
        }
    }

    func returnProof(_ name: Digest) async throws(StoreFailure) {
        if isAway.withLock({ $0 }) { throw .unavailable("away") }
        _ = proofs.withLock { $0.removeValue(forKey: name) }
    }

    func tokenVersions(of tokenDigests: [Digest]) async throws(StoreFailure) -> [StandingSession] {
        asked.withLock { $0.append(tokenDigests) }
        return known.withLock { known in
            tokenDigests.compactMap { tokenDigest in
                known[tokenDigest].map {
                    StandingSession(
                        tokenDigest: tokenDigest, version: $0,
                        hasPresence: present.withLock { $0.contains(tokenDigest) })
                }
            }
        }
    }
}
