/// The evidence that a route requires of a bound session.
package enum EvidenceDemand: Sendable {
    /// A proof, or a pass if the client's setting `evidence` is `pass`.
    case any
    /// A proof is required, because the route issues something that lasts longer than a pass.
    case proof
    /// No evidence is required. A backend calls the route, and checks the app's proof itself with the `cnf` in the answer.
    case none
}
