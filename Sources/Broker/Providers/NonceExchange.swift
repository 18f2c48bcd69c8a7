/// Decides how many times a call with a DPoP proof is sent.
///
/// A call is sent a second time if its server requests another nonce (RFC 9449 sections 8 and 9). The type has no side
/// effects, so the provider calls, the relay and the simulation all use it.
package struct NonceExchange: Sendable, Equatable {
    /// The next action after an answer.
    package enum Action: Sendable, Equatable {
        /// Use the answer as the call's answer.
        case take
        /// Make the whole call again, and send it with this nonce.
        case sendAgain(nonce: String)
        /// Give up. The server requests a nonce for the second time, or requests the nonce that it already received, so another
        /// repeat is useless.
        case giveUp
    }

    /// The nonce that was sent last.
    package private(set) var sent: String?
    /// Whether the server has requested another nonce.
    package private(set) var isRepeated = false
    /// Whether the nonce in the last request is outdated, or the server has issued its first nonce only now.
    package private(set) var isOutdated = false

    /// Creates the state of one call; `nonce` is the nonce in the call's first proof.
    package init(nonce: String?) { sent = nonce }

    /// Decides the next action after an answer.
    ///
    /// - Parameters:
    ///   - asksForNonce: Whether the answer's error is `use_dpop_nonce`.
    ///   - nonce: The nonce that the answer brings.
    ///   - newest: The newest nonce of the server that was known before the answer came.
    /// - Returns: The action.
    package mutating func answered(asksForNonce: Bool, nonce: String?, newest: String?) -> Action {
        isOutdated = sent == nil ? nonce != nil || newest != nil : newest != nil && newest != sent
        guard asksForNonce else { return .take }
        guard !isRepeated, let nonce, nonce != sent else { return .giveUp }
        isRepeated = true
        sent = nonce
        return .sendAgain(nonce: nonce)
    }
}
