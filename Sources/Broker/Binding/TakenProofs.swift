import Synchronization

/// The proofs that this process has taken: each (thumbprint, `jti`) once in its nonce's life, in bounded memory.
///
/// Nothing is forgotten while its nonce is taken. What would not fit is refused: a key's own by `limited`, and where all is full
/// the nonces of before that minute are taken no more, so that what was kept of them can go.
package final class TakenProofs: Sendable {
    /// The most that are kept of one key.
    package static let maximumOfKey = 4096
    /// The most that are kept in all: 16 MiB.
    package static let maximum = 262_144

    /// Sixteen bytes of the digest of a thumbprint and a `jti`.
    private struct Name: Hashable {
        let high, low: UInt64

        init(_ digest: Digest) {
            let bytes = digest.bytes
            high = bytes[..<8].reduce(0) { $0 << 8 | UInt64($1) }
            low = bytes[8..<16].reduce(0) { $0 << 8 | UInt64($1) }
        }
    }

    private struct State {
        /// What was taken, by its nonce's minute.
        var taken: [Int64: Set<Name>] = [:]
        /// How many of a key are kept, by its nonce's minute.
        var ofKeys: [Int64: [Digest: Int]] = [:]
        var count = 0
        /// Nonces of before are taken no more.
        var earliest = Int64.min

        /// Forgets what was taken with nonces of before a minute.
        mutating func forget(before minute: Int64) {
            for old in taken.keys where old < minute {
                count -= taken.removeValue(forKey: old)?.count ?? 0
                ofKeys[old] = nil
            }
        }
    }

    private let state = Mutex(State())
    private let maximumOfKey, maximum: Int

    /// Creates an empty table.
    package init(maximumOfKey: Int = maximumOfKey, maximum: Int = maximum) {
        self.maximumOfKey = maximumOfKey
        self.maximum = maximum
    }

    /// How many are kept.
    package var count: Int { state.withLock(\.count) }

    /// Looks whether a proof could be taken, before its signature costs anything.
    package func look(_ name: Digest, nonce: ProofNonce) throws(ProofRefusal) {
        let verdict: ProofRefusal? = state.withLock { state in
            if nonce.minute < state.earliest { return .nonce }
            return state.taken[nonce.minute]?.contains(Name(name)) == true ? .replayed : nil
        }
        if let verdict { throw verdict }
    }

    /// Takes a proof whose signature is good; throws `replayed` where somebody was faster.
    package func take(_ name: Digest, of key: Digest, nonce: ProofNonce, now: WallTime) throws(ProofRefusal) {
        let verdict: ProofRefusal? = state.withLock { state in
            let present = ProofNonce.minute(now)
            state.forget(before: (present / ProofNonce.period - 1) * ProofNonce.period)
            if nonce.minute < state.earliest { return .nonce }
            if state.taken[nonce.minute]?.contains(Name(name)) == true { return .replayed }
            guard state.ofKeys.values.reduce(0, { $0 + ($1[key] ?? 0) }) < maximumOfKey else { return .limited }
            if state.count >= maximum {
                state.earliest = present
                state.forget(before: present)
                guard nonce.minute >= present else { return .nonce }
                guard state.count < maximum else { return .limited }
            }
            state.taken[nonce.minute, default: []].insert(Name(name))
            state.ofKeys[nonce.minute, default: [:]][key, default: 0] += 1
            state.count += 1
            return nil
        }
        if let verdict { throw verdict }
    }
}
