import Synchronization

/// Charges the signature checks of sessions' proofs before they are made.
///
/// Each check is charged to the address and the session together. If an authenticated backend sends the proof, the check is
/// charged to the session alone.
///
/// A thief with a copy of a session's cookie and public key can send proofs with wrong signatures, and each check costs
/// processor time. Only a wrong signature takes a token, so an honest phone pays nothing. Each session has tokens of its
/// own, so the thief does not affect other sessions behind the same address.
final class SignatureCharges: Sendable {
    /// A session, and the network that its proofs come from; the network is nil if a backend sends them.
    private struct Key: Hashable {
        let network: LimitedNetwork?
        let session: Digest?

        /// The common key of the sessions for which the full table has no entry.
        static let overflow = Key(network: nil, session: nil)
    }

    private struct Bucket {
        /// The number of checks that may still fail before further checks are refused.
        var tokens: Double
        var at: Duration
        /// The number of checks in progress, each of which may still take a token.
        var underWay = 0
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private enum Verdict {
        case begun([Key])
        /// As many checks are in progress as may still fail, so the caller waits until one has ended.
        case wait(Key)
        case refused(Duration)
    }

    private struct State {
        var shares: LimitShares
        var buckets: [Key: Bucket] = [:]
        /// The earliest time of the next search in a full table for refilled buckets.
        var nextSweep = Duration.zero

        func limit(_ key: Key) -> Double {
            guard key != .overflow else { return Double(shares.network) }
            return Double(max(shares[key.network?.level ?? .address], 1))
        }

        func bucket(_ key: Key, now: Duration) -> Bucket {
            let limit = limit(key)
            guard var bucket = buckets[key] else { return Bucket(tokens: limit, at: now) }
            let elapsed = Double(max(now - bucket.at, .zero).wholeMilliseconds) / 1000
            bucket.tokens = min(limit, bucket.tokens + elapsed * limit / 60)
            bucket.at = max(now, bucket.at)
            return bucket
        }

        mutating func sweep(now: Duration, maximum: Int) {
            guard buckets.count >= maximum, now >= nextSweep else { return }
            nextSweep = now + .seconds(1)
            let full = buckets.keys.filter { key in
                let bucket = bucket(key, now: now)
                return bucket.underWay == 0 && bucket.tokens >= limit(key)
            }
            for key in full { buckets[key] = nil }
        }
    }

    private let monotonic: @Sendable () -> Duration
    private let maximum: Int
    /// Guards the buckets.
    ///
    /// Code that holds this lock takes no other lock.
    private let state: Mutex<State>

    /// Creates the charges; a session may have `perMinute` wrong signatures in a minute from one address, and more from a
    /// network (`LimitShares`).
    ///
    /// At most `maximum` buckets are remembered.
    init(perMinute: Int, maximum: Int = 65_536, monotonic: @escaping @Sendable () -> Duration) {
        self.monotonic = monotonic
        self.maximum = maximum
        state = Mutex(State(shares: LimitShares(perMinute: perMinute)))
    }

    /// Applies another limit; tokens that were taken stay taken.
    func adopt(perMinute: Int) { state.withLock { $0.shares = LimitShares(perMinute: perMinute) } }

    /// The number of remembered buckets: those with checks in progress or with recent wrong signatures.
    var count: Int { state.withLock(\.buckets.count) }

    /// Runs a signature check that is charged to a session and an address, or to the session alone.
    ///
    /// Returns the check's result, which is nil for a right signature.
    ///
    /// Throws `rate_limited` without a check if too many signatures were wrong lately.
    func check(
        of session: Digest, from address: IPAddress?, _ check: () async -> ProofRefusal?
    ) async throws(BrokerProblem) -> ProofRefusal? {
        let keys = await begin(session, address)
        switch keys {
        case .failure(let problem): throw problem
        case .success(let keys):
            let refusal = await check()
            end(keys, isRight: refusal == nil)
            return refusal
        }
    }

    private func begin(_ session: Digest, _ address: IPAddress?) async -> Result<[Key], BrokerProblem> {
        let keys =
            address.map { $0.limitedNetworks.map { Key(network: $0, session: session) } }
            ?? [Key(network: nil, session: session)]
        while true {
            switch take(keys) {
            case .begun(let keys): return .success(keys)
            case .wait(let key): await ended(key)
            case .refused(let wait):
                return .failure(
                    BrokerProblem(
                        .rateLimited, privateDetail: "wrong proofs of a session", with: .proof(.limited),
                        retryAfter: wait))
            }
        }
    }

    private func take(_ keys: [Key]) -> Verdict {
        let now = monotonic()
        return state.withLock { state in
            state.sweep(now: now, maximum: maximum)
            let isFull = state.buckets.count >= maximum
            let keys = keys.map { isFull && state.buckets[$0] == nil ? .overflow : $0 }
            for key in keys {
                let bucket = state.bucket(key, now: now)
                if bucket.tokens < 1 {
                    return .refused(
                        .milliseconds(Int64(((1 - bucket.tokens) * 60_000 / state.limit(key)).rounded(.up))))
                }
                if bucket.tokens - Double(bucket.underWay) < 1 { return .wait(key) }
            }
            for key in keys {
                var bucket = state.bucket(key, now: now)
                bucket.underWay += 1
                state.buckets[key] = bucket
            }
            return .begun(keys)
        }
    }

    /// Waits until one of the checks in progress for a key has ended.
    ///
    /// Returns at once if none is in progress.
    private func ended(_ key: Key) async {
        await withCheckedContinuation { continuation in
            let isOver = state.withLock { state in
                guard state.buckets[key]?.underWay ?? 0 > 0 else { return true }
                state.buckets[key]?.waiting.append(continuation)
                return false
            }
            if isOver { continuation.resume() }
        }
    }

    private func end(_ keys: [Key], isRight: Bool) {
        let now = monotonic()
        let waiting = state.withLock { state in
            var waiting: [CheckedContinuation<Void, Never>] = []
            for key in keys {
                var bucket = state.bucket(key, now: now)
                bucket.underWay -= 1
                if !isRight { bucket.tokens -= 1 }
                waiting += bucket.waiting
                bucket.waiting = []
                let isAsNew = bucket.underWay == 0 && bucket.tokens >= state.limit(key)
                state.buckets[key] = isAsNew ? nil : bucket
            }
            return waiting
        }
        for continuation in waiting { continuation.resume() }
    }
}
