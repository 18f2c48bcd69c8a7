/// An access token.
struct AccessToken: Sendable {
    var grant: String
    var expiresAt: Double
    /// The APIs that the token is for.
    var audience: [String] = []
    var scope = ""
    /// Whether the token came from a refresh.
    var refreshed = false
    /// The thumbprint of the key that the token is bound to.
    var thumbprint: String?
    /// The thumbprint of the certificate that the token is bound to.
    var certificate: String?
}
