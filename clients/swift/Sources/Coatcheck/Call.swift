import Foundation

/// A request to the broker, before its credentials are added.
struct Call: Sendable {
    /// The credentials that a call needs: only the secret of the started login, or the session token too.
    enum Needed { case login, both }

    /// The evidence that a call sends for a bound session.
    enum Evidence {
        case none
        /// A proof, if the device has a key.
        ///
        /// If the broker binds the client's sessions, the new session then belongs to this key.
        case signIn
        /// A pass.
        ///
        /// If the client's sessions need a proof with each request, the call sends a proof instead.
        case session
        /// A proof, for calls whose result outlives a pass.
        case proof
    }

    /// The time at which a call proves the user's presence.
    enum Presence {
        /// After the broker has demanded the proof.
        case onDemand
        /// At the first attempt.
        case shown
        /// After the broker has demanded the proof. The call registers the presence key that makes the proof.
        case registers
    }

    var method: String
    var path: String
    var query: String?
    var fields: [String: String] = [:]
    var body: Data?
    var needed = Needed.both
    var evidence = Evidence.session
    /// The credentials of the call, if they differ from the stored ones.
    var credentials: Credentials?
    /// Whether the call can be repeated safely; false only for relayed calls with a method that is not idempotent.
    var isIdempotent = true
    var presence = Presence.onDemand
    /// Whether the call asks for a nonce, by sending a proof that has no nonce.
    var asksForNonce = false

    /// Whether the call may be repeated after the broker has received it once; false for a sign-in.
    var isRepeatable: Bool { isIdempotent && evidence != .signIn }
}
