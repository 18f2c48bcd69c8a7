/// The user of a sign-in, as the provider confirmed it.
package struct ProviderIdentity: Sendable {
    /// The provider's immutable id of the user, or for Clover of the merchant.
    package var subject: String
    /// The confirmed claims, in order: strings, numbers, booleans and arrays of strings.
    package var claims: [(name: String, value: JSONValue)]
    /// The claims that were only in the callback, so the provider has not confirmed them (SEC-16).
    package var unverified: [(name: String, value: JSONValue)]
    /// The OpenID provider's session id, for Back-Channel Logout.
    package var sid: String?
    /// Whether the id_token has a `sid` that cannot be used for lookups.
    package var sidIsUnusable = false
    /// The way and the time in which the user signed in at the provider.
    package var signIn: SignInFacts

    package init(
        subject: String, claims: [(name: String, value: JSONValue)] = [],
        unverified: [(name: String, value: JSONValue)] = [], sid: String? = nil, signIn: SignInFacts = SignInFacts()
    ) {
        self.subject = subject
        self.claims = claims
        self.unverified = unverified
        self.sid = sid
        self.signIn = signIn
    }
}
