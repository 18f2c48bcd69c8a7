import Synchronization

/// The proofs that this process has accepted, so that it refuses a second use of each.
///
/// A pair of thumbprint and `jti` identifies a proof. A proof is remembered for as long as its nonce is accepted.
///
/// The memory is bounded. If a key has too many remembered proofs, its next proof is refused with `limited`. If the table is
/// full, nonces from before the present minute are refused from then on, and proofs with these nonces are forgotten.
package final class TakenProofs: Sendable {
    /// The largest number of proofs that are remembered for one key.
    package static let maximumOfKey = 4096
    /// The largest number of proofs that are remembered in total.
    ///
    /// The proofs take 24 MiB if each proof has a different key.
    ///
    /// The hash tables have up to 8/3 as many slots as entries. A slot takes 16 bytes for a proof and 18 for a key.
    package static let maximum = 262_144

    /// The first sixteen bytes of a digest.
    ///
    /// The digest is either of a thumbprint and a `jti`, or of a thumbprint alone.
    private struct Name: Hashable {
        let high, low: UInt64

        init(_ digest: Digest) {
            let bytes = digest.bytes
            high = bytes[..<8].reduce(0) { $0 << 8 | UInt64($1) }
            low = bytes[8..<16].reduce(0) { $0 << 8 | UInt64($1) }
        }
    }

    private struct State {
        /// The used proofs, grouped by the minute of their nonce.
        var taken: [Int64: Set<Name>] = [:]
        /// The number of used proofs of each key, grouped by the minute of their nonce.
        var ofKeys: [Int64: [Name: UInt16]] = [:]
        var count = 0
        /// The earliest minute whose nonces are accepted.
        ///
        /// If the table is full, the present minute becomes the earliest.
        var earliest = Int64.min

        /// Forgets the used proofs whose nonce is from before a minute.
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
        self.maximumOfKey = min(maximumOfKey, Int(UInt16.max))
        self.maximum = maximum
    }

    /// The number of proofs that are remembered.
    package var count: Int { state.withLock(\.count) }

    /// Throws if a proof was used before, or its nonce is too old.
    ///
    /// The caller asks this before the expensive signature check.
    package func look(_ name: Digest, nonce: ProofNonce) throws(ProofRefusal) {
        let verdict: ProofRefusal? = state.withLock { state in
            if nonce.minute < state.earliest { return .nonce }
            return state.taken[nonce.minute]?.contains(Name(name)) == true ? .replayed : nil
        }
        if let verdict { throw verdict }
    }

    /// Records a proof with a right signature as used; throws `replayed` if the proof was used before.
    package func take(_ name: Digest, of key: Digest, nonce: ProofNonce, now: WallTime) throws(ProofRefusal) {
        let key = Name(key)
        let verdict: ProofRefusal? = state.withLock { state in
            let present = ProofNonce.minute(now)
            let oldest = ProofNonce.oldest(at: present)
            state.forget(before: oldest)
            // The nonce was accepted before the signature check (`judge`), but may be too old by now. The used proofs with
            // nonces of its minute are already forgotten, so this proof may be a replay.
            if nonce.minute < max(state.earliest, oldest) { return .nonce }
            if state.taken[nonce.minute]?.contains(Name(name)) == true { return .replayed }
            guard state.ofKeys.values.reduce(0, { $0 + Int($1[key] ?? 0) }) < maximumOfKey else { return .limited }
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

    /// Forgets that a proof was used, for example because the request failed.
    ///
    /// The app may then send the same proof again.
    func giveBack(_ candidate: ProofVerifier.Candidate) {
        let (key, minute) = (Name(candidate.thumbprint), candidate.nonce.minute)
        state.withLock { state in
            guard state.taken[minute]?.remove(Name(candidate.name)) != nil else { return }
            let kept = state.ofKeys[minute]?[key] ?? 0
            state.ofKeys[minute]?[key] = kept > 1 ? kept - 1 : nil
            state.count -= 1
        }
    }
}

/// The nonce of a proof (RFC 9449 section 8): the minute of its issue, with an HMAC of this minute under the index key.
///
/// A replica checks the HMAC without reading the store, so it accepts the nonces of every other replica in the same scope. The
/// minute comes from the broker that issued the nonce, so the phone's own clock does not matter.
package struct ProofNonce: Sendable, Hashable {
    /// The length of a period, in minutes.
    ///
    /// A nonce is accepted until the end of the period that follows the period of its issue.
    static let period: Int64 = 5
    /// The longest time for which a nonce is accepted: two periods and one minute.
    ///
    /// The minute is added because another replica's clock may be a minute ahead.
    package static let lifetime = Duration.seconds(11 * 60)

    /// The minute of the nonce's issue, counted from 1970.
    package let minute: Int64

    /// Whether the period of the nonce's issue has ended, so that the nonce is in the second and last period of its life.
    ///
    /// In the second period, the broker's answer contains a new nonce.
    package let isAging: Bool

    /// Returns the nonce that the broker issues at a given time.
    ///
    /// Only verifiers of the same scope accept this nonce.
    package static func text(at now: WallTime, scope: NonceScope = "", by vault: some Vault) -> String {
        let minute = Self.minute(now)
        return Base64URL.encode(bytes(minute) + scope.code(minute, at: minute, by: vault))
    }

    /// Reads a nonce from a proof.
    ///
    /// The result is nil if the broker never issued the nonce. It is also nil if the nonce is too old, or more than a minute in
    /// the future.
    package init?(_ text: String, at now: WallTime, scope: NonceScope = "", by vault: some Vault) {
        guard text.utf8.count == 16, let bytes = Base64URL.decode(text) else { return nil }
        let minute = bytes[..<4].reduce(Int64(0)) { $0 << 8 | Int64($1) }
        let present = Self.minute(now)
        guard (Self.oldest(at: present)...present + 1).contains(minute) else { return nil }
        guard scope.code(minute, at: present, by: vault).isEqualInConstantTime(to: bytes[4...]) else { return nil }
        self.minute = minute
        isAging = minute / Self.period < present / Self.period
    }

    /// Returns the earliest minute of issue whose nonces are accepted in the minute `present`.
    static func oldest(at present: Int64) -> Int64 { (present / period - 1) * period }

    /// Returns the number of minutes since 1970 at a given time.
    ///
    /// A time before 1970 counts as minute 0. A time after the year 10135 counts as the last minute that fits into a nonce.
    static func minute(_ now: WallTime) -> Int64 { min(max(now.seconds / 60, 0), Int64(UInt32.max) - 1) }

    private static func bytes(_ minute: Int64) -> [UInt8] {
        [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: minute >> $0) }
    }
}
