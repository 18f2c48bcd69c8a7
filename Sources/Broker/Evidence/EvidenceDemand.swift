/// The evidence that a route requires of a bound session.
package enum EvidenceDemand: Sendable {
    /// A proof or, if the client's evidence is a pass, a pass.
    case any
    /// A proof is required, because the route issues something that lasts longer than a pass.
    case proof
    /// No evidence is required, because the calling backend itself checks the proof with the `cnf` of the answer.
    case none
}
