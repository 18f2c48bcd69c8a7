/// A pushed authorization request (RFC 9126).
struct PushedRequest: Sendable {
    var provider: String
    var clientID: String
    var parameters: Pairs
    var expiresAt: Double
}
