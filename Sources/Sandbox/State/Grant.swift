/// The permission that one user gave to one client; every code and token belongs to a grant.
struct Grant: Sendable {
    var id: String
    var provider: String
    var clientID: String
    var user: String
    var scope: String
    var nonce: String?
    var authenticatedAt: Double
    /// The `acr` of the sign-in.
    var authenticationClass = "pwd"
    var sid: String
    /// The parameters of the authorize request (`access_type`, `prompt`, …), without those of the sandbox itself.
    var extras: [String: String]
    /// The resources that the authorize request named (RFC 8707).
    var resources: [String] = []
    var revoked = false
    /// The thumbprint of the key that the grant's tokens are bound to.
    var thumbprint: String?

    var scopes: Set<String> { Set(scope.split(whereSeparator: { $0 == " " || $0 == "," }).map(String.init)) }
}
