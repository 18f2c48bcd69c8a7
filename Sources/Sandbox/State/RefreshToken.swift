/// A refresh token; a spent token is kept, so that its reuse is recognised.
struct RefreshToken: Sendable {
    var grant: String
    var expiresAt: Double
    var spent = false
    /// The refresh token that replaced this token; nil if there is none.
    var successor: String?
}
