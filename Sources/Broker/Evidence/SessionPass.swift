/// A pass, which replaces proofs in the requests of a bound session for some minutes.
///
/// A pass contains the time of its end, and an HMAC over this time and the digest of the session token. The HMAC uses the index
/// key, which does not rotate. The broker makes and checks passes without the store. For each request, it also looks up the
/// session as usual, so a pass is useless after the end of its session.
package struct SessionPass: Sendable {
    /// The time at which the pass ends.
    package let expiresAt: WallTime

    /// Creates a pass whose end is rounded down to a whole second.
    package init(expiresAt: WallTime) { self.expiresAt = WallTime(seconds: expiresAt.seconds) }

    /// Returns the pass as text of 32 characters, for the session with this token digest.
    package func text(of session: Digest, by vault: some Vault) -> Secret {
        Secret(Base64URL.encode(Self.bytes(expiresAt) + Self.code(expiresAt, session, vault)))
    }

    /// Reads and checks a pass for a session.
    ///
    /// Throws `pass` if the pass belongs to another session, or if the broker never issued it. Throws `required` if the pass
    /// has ended.
    package init(_ text: Secret, of session: Digest, at now: WallTime, by vault: some Vault) throws(ProofRefusal) {
        guard let bytes = Base64URL.decode(text.reveal()), bytes.count == 24 else { throw .pass }
        let expiresAt = WallTime(seconds: bytes[..<8].reduce(Int64(0)) { $0 << 8 | Int64($1) })
        guard Self.code(expiresAt, session, vault).isEqualInConstantTime(to: bytes[8...]) else { throw .pass }
        self.expiresAt = expiresAt
        try check(at: now)
    }

    /// Throws `required` if the pass has ended.
    func check(at now: WallTime) throws(ProofRefusal) {
        guard now < expiresAt else { throw .required }
    }

    private static func bytes(_ time: WallTime) -> [UInt8] {
        stride(from: 56, through: 0, by: -8).map { UInt8(truncatingIfNeeded: time.seconds >> Int64($0)) }
    }

    private static func code(_ expiresAt: WallTime, _ session: Digest, _ vault: some Vault) -> ArraySlice<UInt8> {
        vault.index(.sessionPass, [String(expiresAt.seconds), Base64URL.encode(session.bytes)]).bytes[..<16]
    }
}
