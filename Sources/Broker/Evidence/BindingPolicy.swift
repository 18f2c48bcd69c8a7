/// A client's rules for sessions that belong to a key of the device (`clients.NAME.binding`).
///
/// The mode applies when a login or a session begins. A session that was bound at its beginning stays bound for its whole
/// life.
package struct BindingPolicy: Sendable, Equatable {
    package enum Mode: String, Sendable, CaseIterable {
        /// Proofs are ignored.
        case off
        /// The proofs of sign-ins are checked and counted as under `enforce`. A sign-in is never refused for its proof, and
        /// its session belongs to no key.
        case observe
        /// A sign-in has to prove a key, and its session then belongs to this key.
        case enforce
    }

    /// The evidence that a bound session's requests may show.
    package enum Evidence: String, Sendable, CaseIterable {
        /// A proof, or a pass that the broker issued for a proof.
        case pass
        /// Each request needs a proof.
        case proof
    }

    package var mode = Mode.off
    package var evidence = Evidence.pass
    /// The lifetime of a pass.
    package var passLifetime = Duration.seconds(600)

    package init() {}
}
