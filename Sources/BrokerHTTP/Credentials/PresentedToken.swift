import Broker

/// A session token, and the field or cookie that contained it.
struct PresentedToken: Sendable {
    let secret: Secret
    /// Whether the token came in the cookie of a web child.
    ///
    /// Only web children use this cookie, and web children use only this cookie.
    let isWebCookie: Bool

    /// Throws `session_required` unless a web child's token came in the web child's cookie, and any other token elsewhere.
    func checkCarries(_ session: LiveSession) throws(BrokerProblem) {
        guard (session.facts.child?.kind == .web) == isWebCookie else { throw BrokerProblem(.sessionRequired) }
    }
}
