/// One browser's single sign-on session at a provider: who signed in, when, and which clients were allowed.
struct SignOn: Sendable {
    var provider: String
    var user: String
    var authenticatedAt: Double
    /// The class of that sign-in (`acr`).
    var authenticationClass: String
    var sid: String
    var clients: Set<String> = []
}
