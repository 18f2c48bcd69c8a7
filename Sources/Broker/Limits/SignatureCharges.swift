import Synchronization

/// Charges the session and the address for each signature check of a session's proof, before the check begins.
///
/// If an authenticated backend sends the proof, only the session is charged.
///
/// A thief with a copy of a session's cookie and public key can send proofs with wrong signatures, and each check costs
/// processor time. Only a wrong signature takes a token, so an honest phone pays nothing. Each session has tokens of its own,
/// so the thief does not affect other sessions behind the same address.
final class SignatureCharges: Sendable {
    /// A session, with the address or network that sends its proofs; `network` is nil if a backend sends them.
    private struct Key: Hashable {
        let network: LimitedNetwork?
        let session: Digest?

        /// The common key of all sessions that found no room in the full table.
        static let overflow = Key(network: nil, session: nil)
    }

    private struct Bucket {
        /// The number of further wrong signatures after which checks are refused.
        var tokens: Double
        var at: Duration
        /// The number of checks in progress.
        ///
        /// Each takes a token if its signature turns out to be wrong.
        var underWay = 0
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private enum Verdict {
        case begun([Key])
        /// If all checks in progress fail, no token is left. So the caller waits until one of these checks has ended.
        case wait(Key)
        case refused(Duration)
    }

    private struct State {
        var shares: LimitShares
        var buckets: [Key: Bucket] = [:]
        /// The earliest moment of the next search for buckets that have all their tokens again.
        ///
        /// Only a full table is searched.
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

    /// Applies another limit.
    ///
    /// Tokens that were taken before are not refunded.
    func adopt(perMinute: Int) { state.withLock { $0.shares = LimitShares(perMinute: perMinute) } }

    /// The number of buckets in memory.
    ///
    /// A bucket stays during its checks, and after a wrong signature until it has refilled.
    var count: Int { state.withLock(\.buckets.count) }

    /// Runs a signature check, and charges the session and the address, or only the session if `address` is nil.
    ///
    /// Returns the check's result, which is nil for a right signature.
    ///
    /// Throws `rate_limited`, and runs no check, if too many signatures were wrong in the last minute.
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

    /// Waits until one of the checks in progress for a key has ended; returns at once if no check is in progress.
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
