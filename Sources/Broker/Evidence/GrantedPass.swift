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
