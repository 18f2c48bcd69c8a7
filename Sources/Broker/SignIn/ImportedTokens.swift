/// Tokens that an app already holds.
package struct ImportedTokens: Sendable {
    package var accessToken: Secret
    /// The refresh token; nil if the provider issues none (Clever), or did not issue one with this access token (Clover).
    package var refreshToken: Secret?
    /// The merchant that the tokens belong to, according to the app.
    ///
    /// The import is refused unless the provider's API confirms the merchant.
    package var merchantID: String?

    /// The merchant, if the app named one, in the form of a callback's parameters.
    var callback: [(name: String, value: String)] { merchantID.map { [("merchant_id", $0)] } ?? [] }

    package init(accessToken: Secret, refreshToken: Secret?, merchantID: String?) {
        self.accessToken = accessToken
        self.refreshToken = refreshToken
        self.merchantID = merchantID
    }
}
