/// One browser's single sign-on session at a provider, with its user, time and permitted clients.
struct SignOn: Sendable {
    var provider: String
    var user: String
    var authenticatedAt: Double
    /// The `acr` of the sign-in.
    var authenticationClass: String
    var sid: String
    var clients: Set<String> = []
}
