/// A pass, which replaces the proof of a bound session's key for some minutes.
///
/// A pass contains its end time and an HMAC over this time and the session's digest. The HMAC uses the index key, which does
/// not rotate. A pass is made and checked without the store. The session itself is looked up as usual, so a pass is useless
/// after the end of its session.
package struct SessionPass: Sendable {
    /// The end of the pass.
    package let expiresAt: WallTime

    /// Creates a pass that ends at a whole second.
    package init(expiresAt: WallTime) { self.expiresAt = WallTime(seconds: expiresAt.seconds) }

    /// Returns the text of a session's pass, 32 characters.
    package func text(of session: Digest, by vault: some Vault) -> Secret {
        Secret(Base64URL.encode(Self.bytes(expiresAt) + Self.code(expiresAt, session, vault)))
    }

    /// Reads and checks a pass for a session.
    ///
    /// Throws `pass` if the pass belongs to another session or was never issued, and `required` if it has ended.
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

/// Exchanges a proof of a bound session's key for a pass (`POST /v1/session/pass`).
///
/// The pass is not stored.
package struct GrantPass: Sendable {
    private let context: BrokerContext

    init(_ context: BrokerContext) { self.context = context }

    /// Returns the pass of a session whose key has just been proved.
    ///
    /// Throws `client_not_allowed` if the session is unbound, or if the client's evidence is a proof.
    package func grant(to session: LiveSession) throws(BrokerProblem) -> GrantedPass {
        guard let pass = GrantedPass(for: session, context) else {
            throw BrokerProblem(
                .clientNotAllowed, detail: "This session has no passes.",
                privateDetail: session.binding == nil ? "the session is not bound" : "the client's evidence is a proof")
        }
        return pass
    }
}

/// A pass as the phone receives it.
package struct GrantedPass: Sendable {
    package let text: Secret
    package let expiresAt: WallTime
    /// The lifetime of the pass, for phones whose clock is wrong, because they cannot use `expiresAt`.
    package let lifetime: Duration
    /// The way in which the phone receives the pass, as a cookie or in the body.
    ///
    /// A child always receives its pass in the body, because it keeps no cookies, and the cookie contains the parent's pass.
    package let transport: ClientProfile.Transport

    /// Creates a pass for the session; nil if the client's settings do not allow one.
    init?(for session: LiveSession, _ context: BrokerContext) {
        guard let binding = session.binding, binding.policy.evidence == .pass else { return nil }
        lifetime = binding.policy.passLifetime
        let client = context.providers[session.facts.provider]?.profile.client(session.facts.client)
        transport = session.family == nil ? client?.transport ?? .cookie : .bearer
        let pass = SessionPass(expiresAt: context.clock.now().advanced(by: lifetime))
        expiresAt = pass.expiresAt
        text = pass.text(of: session.tokenDigest, by: context.vault)
    }
}
