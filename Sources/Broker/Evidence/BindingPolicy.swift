/// A client's rules for bound sessions, from the setting `clients.NAME.binding`.
///
/// The mode decides whether a new login or session is bound. Existing sessions keep their state if the mode changes later.
package struct BindingPolicy: Sendable, Equatable {
    package enum Mode: String, Sendable, CaseIterable {
        /// Proofs are ignored.
        case off
        /// The proof of a sign-in is checked and counted as under `enforce`.
        ///
        /// The sign-in is accepted even if the proof is bad, and the session is unbound.
        case observe
        /// A sign-in without a good proof is refused.
        ///
        /// The session then belongs to the key of the proof.
        case enforce
    }

    /// The evidence that a request with a bound session may contain.
    package enum Evidence: String, Sendable, CaseIterable {
        /// A request needs a proof, or a pass that the broker issued in return for a proof.
        case pass
        /// A request always needs a proof.
        case proof
    }

    package var mode = Mode.off
    package var evidence = Evidence.pass
    /// The time from the issue of a pass until its end.
    package var passLifetime = Duration.seconds(600)

    package init() {}
}
