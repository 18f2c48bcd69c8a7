/// A client's rules for sessions that belong to a key of the device (`clients.NAME.binding`).
///
/// The mode is asked when a login or a session begins; what is bound by then is judged for ever.
package struct BindingPolicy: Sendable, Equatable {
    package enum Mode: String, Sendable, CaseIterable {
        /// Proofs are not looked at.
        case off
        /// Sign-ins are judged and counted as `enforce` would answer them, and never refused.
        case observe
        /// A sign-in has to prove a key, and its session belongs to it.
        case enforce
    }

    /// The evidence that a bound session's requests may show.
    package enum Evidence: String, Sendable, CaseIterable {
        /// A proof, or a pass that a proof was exchanged for.
        case pass
        /// A proof with each request.
        case proof
    }

    package var mode = Mode.off
    package var evidence = Evidence.pass
    /// The life of a pass.
    package var passLifetime = Duration.seconds(600)

    package init() {}
}
