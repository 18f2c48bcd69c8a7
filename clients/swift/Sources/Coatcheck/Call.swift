import Foundation

/// A call of the broker's, before it has its credentials.
struct Call: Sendable {
    /// The credentials that a call needs.
    enum Needed { case login, both }

    /// The evidence that a call shows of a bound session's key.
    enum Evidence {
        case none
        /// A proof, where the device has a key: the session that is made belongs to it.
        case signIn
        /// A pass, or a proof where the client's sessions want one with each request.
        case session
        /// A proof: the call gives what outlives a pass.
        case proof
    }

    /// The times at which a call shows that the user is there.
    enum Presence {
        /// After the broker demanded it.
        case onDemand
        /// From the first.
        case shown
        /// After the broker demanded it, by the key that the call registers.
        case registers
    }

    var method: String
    var path: String
    var query: String?
    var fields: [String: String] = [:]
    var body: Data?
    var needed = Needed.both
    var evidence = Evidence.session
    /// The credentials of the call, where they are not those that are kept.
    var credentials: Credentials?
    /// Whether it does no harm to do it twice: all but relayed calls whose method is not idempotent.
    var isIdempotent = true
    var presence = Presence.onDemand
    /// Whether it asks for a nonce, by a proof without one.
    var asksForNonce = false

    /// Whether a call that was taken once may be made anew: never a sign-in.
    var isRepeatable: Bool { isIdempotent && evidence != .signIn }
}
