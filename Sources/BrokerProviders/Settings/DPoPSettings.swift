/// `dpop`: the form of proofs for a provider that binds its tokens to the broker's key (RFC 9449).
package struct DPoPSettings: Sendable, Equatable {
    /// The setting `par`: an addition to a pushed request, besides `dpop_jkt`.
    package enum PushedProof: String, Sendable, CaseIterable {
        /// A DPoP proof, which brings the first nonce.
        case proof
        /// No addition besides `dpop_jkt`.
        case thumbprint
    }

    /// The setting `nonce_before_spending`.
    package enum NonceBeforeSpending: String, Sendable, CaseIterable {
        /// The server checks the proof before it spends the refresh token.
        ///
        /// If the server refuses the nonce, the refresh token is not spent.
        case yes = "true"
        /// The server spends the refresh token before it checks the proof.
        case no = "false"
        /// The order is unknown, which is treated like `false`.
        case unknown
    }

    package var par = PushedProof.proof
    package var nonceBeforeSpending = NonceBeforeSpending.unknown
    /// `nonce_age`: the greatest age of a nonce for a refresh.
    ///
    /// If no nonce is younger, a new one is requested first if possible.
    package var nonceAge = Duration.seconds(240)

    package init() {}
}
