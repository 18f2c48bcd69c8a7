/// Gives a bound session's phone a pass in exchange for a proof (`POST /v1/session/pass`).
///
/// Nothing is written for it.
package struct GrantPass: Sendable {
    private let context: BrokerContext

    init(_ context: BrokerContext) { self.context = context }

    /// Returns the pass of a session whose key has just been proved; throws `client_not_allowed` for a session that is not
    /// bound, and where the client's evidence is a proof.
    package func grant(to session: LiveSession) throws(BrokerProblem) -> GrantedPass {
        guard let pass = GrantedPass(for: session, context) else {
            throw BrokerProblem(
                .clientNotAllowed, detail: "This session has no passes.",
                privateDetail: session.binding == nil ? "the session is not bound" : "the client's evidence is a proof")
        }
        return pass
    }
}

/// A pass as its phone gets it.
package struct GrantedPass: Sendable {
    package let text: Secret
    package let expiresAt: WallTime
    /// Its life: a phone whose clock is wrong goes by that.
    package let lifetime: Duration
    package let transport: ClientProfile.Transport

    /// Creates the pass that a session may have now; nil where it may have none.
    init?(for session: LiveSession, _ context: BrokerContext) {
        guard let binding = session.binding, binding.policy.evidence == .pass else { return nil }
        lifetime = binding.policy.passLifetime
        let client = context.providers[session.facts.provider]?.profile.client(session.facts.client)
        transport = client?.transport ?? .cookie
        let pass = SessionPass(expiresAt: context.clock.now().advanced(by: lifetime))
        expiresAt = pass.expiresAt
        text = pass.text(of: session.token, by: context.vault)
    }
}
