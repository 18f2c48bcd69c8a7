/// The evidence that a route requires from a request with a bound session.
package enum EvidenceDemand: Sendable {
    /// A proof, or a pass if the client's setting `evidence` is `pass`.
    case any
    /// A proof is required and a pass is not enough, because the route issues something that lasts longer than a pass.
    case proof
    /// No evidence is required.
    ///
    /// A backend calls this route for the app. The backend checks the app's proof itself, with the key's thumbprint in the
    /// answer (`cnf`).
    case none
}
