import Synchronization

/// The proofs that this process has taken: each (thumbprint, `jti`) once in its nonce's life, in bounded memory.
///
/// Nothing is forgotten while its nonce is taken. What would not fit is refused: a key's own by `limited`, and where all is full
/// the nonces of before that minute are taken no more, so that what was kept of them can go.
package final class TakenProofs: Sendable {
    /// The most that are kept of one key.
    package static let maximumOfKey = 4096
    /// The most that are kept in all: 24 MiB where each is of another key.
    ///
    /// A table has up to 8/3 as many places as entries, of 16 bytes for a proof and 18 for a key.
    package static let maximum = 262_144

    /// Sixteen bytes of a digest: of a thumbprint and a `jti`, or of a thumbprint alone.
    private struct Name: Hashable {
        let high, low: UInt64

        init(_ digest: Digest) {
            let bytes = digest.bytes
            high = bytes[..<8].reduce(0) { $0 << 8 | UInt64($1) }
            low = bytes[8..<16].reduce(0) { $0 << 8 | UInt64($1) }
        }
    }

    private struct State {
        /// The proofs taken, by their nonce's minute.
        var taken: [Int64: Set<Name>] = [:]
        /// The number kept of a key, by its nonce's minute.
        var ofKeys: [Int64: [Name: UInt16]] = [:]
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
        self.maximumOfKey = min(maximumOfKey, Int(UInt16.max))
        self.maximum = maximum
    }

    /// The number kept.
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
        let key = Name(key)
        let verdict: ProofRefusal? = state.withLock { state in
            let present = ProofNonce.minute(now)
            let oldest = ProofNonce.oldest(at: present)
            state.forget(before: oldest)
            // A proof that was judged in time may come here late: what was taken with its nonce is forgotten by now.
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

    /// Forgets a proof that was taken for what did not happen: it may be taken again.
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

/// The nonce of a proof (RFC 9449 section 8): a minute, and an HMAC over it under the index key.
///
/// Nothing is stored, so a nonce of any replica is taken by each. The minute is that of the broker that gave it: with a nonce
/// that is ours the phone's own clock needs no judging.
package struct ProofNonce: Sendable, Hashable {
    /// The minutes of a period; a nonce is taken in its own and the next.
    static let period: Int64 = 5
    /// The longest life of a nonce: two periods and the minute that a replica's clock may be ahead.
    package static let lifetime = Duration.seconds(11 * 60)

    /// The minute since 1970 at which it was given.
    package let minute: Int64

    /// Whether it is in its second period: the answer brings a new one.
    package let isAging: Bool

    /// Returns the nonce to give at a moment.
    ///
    /// A nonce of another scope is none.
    package static func text(at now: WallTime, scope: NonceScope = "", by vault: some Vault) -> String {
        let minute = Self.minute(now)
        return Base64URL.encode(bytes(minute) + scope.code(minute, at: minute, by: vault))
    }

    /// Reads a nonce; nil for one that is not ours, has ended or is more than a minute of the future.
    package init?(_ text: String, at now: WallTime, scope: NonceScope = "", by vault: some Vault) {
        guard text.utf8.count == 16, let bytes = Base64URL.decode(text) else { return nil }
        let minute = bytes[..<4].reduce(Int64(0)) { $0 << 8 | Int64($1) }
        let present = Self.minute(now)
        guard (Self.oldest(at: present)...present + 1).contains(minute) else { return nil }
        guard scope.code(minute, at: present, by: vault).isEqualInConstantTime(to: bytes[4...]) else { return nil }
        self.minute = minute
        isAging = minute / Self.period < present / Self.period
    }

    /// Returns the first minute of which nonces are taken in a minute.
    static func oldest(at present: Int64) -> Int64 { (present / period - 1) * period }

    /// Returns the minute of a moment; before 1970 and after 10135 there are no nonces that fit.
    static func minute(_ now: WallTime) -> Int64 { min(max(now.seconds / 60, 0), Int64(UInt32.max) - 1) }

    private static func bytes(_ minute: Int64) -> [UInt8] {
        [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: minute >> $0) }
    }
}

/// The scope of nonces, and the codes of its minutes.
///
/// It tells the processes apart that each alone remember what they took. Where all share what was taken it is empty.
package final class NonceScope: Sendable, ExpressibleByStringLiteral {
    private struct Kept {
        /// The minute in which the codes were made.
        var present: Int64 = -1
        /// The codes of the minutes that are taken now: a dozen.
        var codes: [Int64: ArraySlice<UInt8>] = [:]
    }

    private let name: String
    /// Guards the codes: all proofs of a minute have the same.
    ///
    /// They are made anew each minute, for a process that began with another installation's key ring takes the right one over
    /// while it runs.
    private let kept = Mutex(Kept())

    package init(_ name: String) { self.name = name }

    package convenience init(stringLiteral name: String) { self.init(name) }

    /// Returns a minute's code under the index key, which does not rotate, in the present minute; eight bytes: what a guess has
    /// to hit within ten minutes, request by request.
    fileprivate func code(_ minute: Int64, at present: Int64, by vault: some Vault) -> ArraySlice<UInt8> {
        kept.withLock { kept in
            if kept.present != present { kept = Kept(present: present) }
            if let known = kept.codes[minute] { return known }
            let code = vault.index(.proofNonce, [String(minute), name]).bytes[..<8]
            kept.codes[minute] = code
            return code
        }
    }
}
