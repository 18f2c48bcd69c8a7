/// An authorization code.
struct IssuedCode: Sendable {
    var grant: String
    var redirectURI: String?
    var challenge: String?
    var expiresAt: Double
    var used = false
}
