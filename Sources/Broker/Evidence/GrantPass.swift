/// Exchanges a proof of a bound session's key for a pass (`POST /v1/session/pass`).
///
/// The broker does not store the pass.
package struct GrantPass: Sendable {
    private let context: BrokerContext

    init(_ context: BrokerContext) { self.context = context }

    /// Returns a new pass for a session; the caller has checked a proof by the session's key.
    ///
    /// Throws `client_not_allowed` if the session is unbound, or if the client's setting `evidence` is `proof`.
    package func grant(to session: LiveSession) throws(BrokerProblem) -> GrantedPass {
        guard let pass = GrantedPass(for: session, context) else {
            throw BrokerProblem(
                .clientNotAllowed, detail: "This session has no passes.",
                privateDetail: session.binding == nil ? "the session is not bound" : "the client's evidence is a proof")
        }
        return pass
    }
}
