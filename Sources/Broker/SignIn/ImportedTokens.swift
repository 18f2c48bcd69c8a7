/// Tokens that an app already holds.
package struct ImportedTokens: Sendable {
    /// The access token; nil if the app sends only a refresh token.
    package var accessToken: Secret?
    /// The refresh token; nil if the provider issues none (Clever), or did not issue one with this access token (Clover).
    package var refreshToken: Secret?
    /// The app's id_token, which is only compared with the provider's answer.
    package var idToken: Secret?
    /// The merchant that the tokens belong to, according to the app.
    ///
    /// The import is refused unless the provider's API confirms the merchant.
    package var merchantID: String?
    /// The user according to the old system; nil for tokens that an app posts.
    ///
    /// The import is refused if the provider names another user.
    var expectedSubject: String?
    /// The scope according to the old system, which counts if the provider's answer lacks one.
    var scope: [String] = []

    /// The merchant, if the app named one, in the form of a callback's parameters.
    var callback: [(name: String, value: String)] { merchantID.map { [("merchant_id", $0)] } ?? [] }

    package init(accessToken: Secret?, refreshToken: Secret?, merchantID: String?, idToken: Secret? = nil) {
        self.accessToken = accessToken
        self.refreshToken = refreshToken
        self.merchantID = merchantID
        self.idToken = idToken
    }
}
