/// An access token.
struct AccessToken: Sendable {
    var grant: String
    var expiresAt: Double
    /// The APIs that it is for.
    var audience: [String] = []
    var scope = ""
    /// Whether it came from a refresh.
    var refreshed = false
    /// The thumbprint of the key that it is bound to.
    var thumbprint: String?
    /// The thumbprint of the certificate that it is bound to.
    var certificate: String?
}
