/// A refresh token; a spent one is kept, so that its reuse is noticed.
struct RefreshToken: Sendable {
    var grant: String
    var expiresAt: Double
    var spent = false
    /// The one that took its place.
    var successor: String?
}
