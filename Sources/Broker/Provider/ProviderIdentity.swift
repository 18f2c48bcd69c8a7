/// Who signed in, as the provider confirmed it.
package struct ProviderIdentity: Sendable {
    /// The provider's immutable id of the user (for Clover: of the merchant).
    package var subject: String
    /// Confirmed claims: strings, numbers, booleans and arrays of strings, in order.
    package var claims: [(name: String, value: JSONValue)]
    /// What stood only in the callback (SEC-16).
    package var unverified: [(name: String, value: JSONValue)]
    /// The OpenID provider's session id, for Back-Channel Logout.
    package var sid: String?
    /// Whether the id_token has a `sid` that nothing can be looked up by.
    package var sidIsUnusable = false
    /// When the user signed in at the provider, seconds since 1970, from `auth_time`.
    package var authenticatedAt: Int64?

    package init(
        subject: String, claims: [(name: String, value: JSONValue)] = [],
        unverified: [(name: String, value: JSONValue)] = [], sid: String? = nil, authenticatedAt: Int64? = nil
    ) {
        self.subject = subject
        self.claims = claims
        self.unverified = unverified
        self.sid = sid
        self.authenticatedAt = authenticatedAt
    }
}
