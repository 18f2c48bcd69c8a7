/// A pass as the app receives it.
package struct GrantedPass: Sendable {
    package let text: Secret
    package let expiresAt: WallTime
    /// The time until the pass ends.
    ///
    /// An app on a phone with a wrong clock uses this time instead of `expiresAt`.
    package let lifetime: Duration
    /// The place of the pass in the answer, either a cookie or the body.
    ///
    /// A child always receives its pass in the body, because the app's cookie already contains the parent's pass.
    package let transport: ClientProfile.Transport

    /// Creates a pass for the session; nil if the session is unbound, or if its client's setting `evidence` is `proof`.
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
