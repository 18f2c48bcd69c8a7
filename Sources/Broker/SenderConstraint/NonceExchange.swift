/// Decides how often a call with a proof is sent: once, and once more where its server asks for another nonce (RFC 9449
/// sections 8 and 9).
///
/// Pure, so that the simulation's provider goes by it as well as the engine.
package struct NonceExchange: Sendable, Equatable {
    /// Something to do with an answer.
    package enum Action: Sendable, Equatable {
        /// It is the call's answer.
        case take
        /// Send the call again, all of it made anew, with this nonce.
        case sendAgain(nonce: String)
        /// The server asks again, or for the nonce that it was sent: in passing it is not to be satisfied.
        case giveUp
    }

    /// The nonce that was sent last.
    package private(set) var sent: String?
    /// Whether the server has asked for another nonce.
    package private(set) var isRepeated = false
    /// Whether the nonce that was sent last is not the newest any more, or the server has given its first one only now.
    package private(set) var isOutdated = false

    /// Creates the exchange of a call whose first proof has this nonce.
    package init(nonce: String?) { sent = nonce }

    /// Takes an answer.
    ///
    /// - Parameters:
    ///   - asksForNonce: Whether it says `use_dpop_nonce`.
    ///   - nonce: The nonce that it brings.
    ///   - newest: The newest nonce that was known of its server before it came.
    /// - Returns: The thing to do with it.
    package mutating func answered(asksForNonce: Bool, nonce: String?, newest: String?) -> Action {
        isOutdated = sent == nil ? nonce != nil || newest != nil : newest != nil && newest != sent
        guard asksForNonce else { return .take }
        guard !isRepeated, let nonce, nonce != sent else { return .giveUp }
        isRepeated = true
        sent = nonce
        return .sendAgain(nonce: nonce)
    }
}
