/// A Zephr partial registration.
struct ZephrStateKey: Sendable {
    var user: String
    var email: String
    var expiresAt: Double
    var spent = false
}
