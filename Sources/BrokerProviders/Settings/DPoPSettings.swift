/// `dpop`: details of the DPoP calls to a provider that binds its tokens to a key of the broker (RFC 9449).
package struct DPoPSettings: Sendable, Equatable {
    /// The setting `par`: the content of a pushed authorization request in addition to `dpop_jkt`.
    package enum PushedProof: String, Sendable, CaseIterable {
        /// A DPoP proof, so the answer contains the server's first nonce.
        case proof
        /// Only `dpop_jkt`.
        case thumbprint
    }

    /// The setting `nonce_before_spending`.
    package enum NonceBeforeSpending: String, Sendable, CaseIterable {
        /// The server checks the proof before it spends the refresh token.
        ///
        /// If the server refuses the nonce, the refresh token is still valid.
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
    /// If the newest nonce is older, the broker tries to get a new nonce before the refresh.
    package var nonceAge = Duration.seconds(240)

    package init() {}
}
