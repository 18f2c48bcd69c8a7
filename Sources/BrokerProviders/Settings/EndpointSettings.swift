/// `endpoints`: absolute https URLs, or http on loopback.
///
/// A set one overrides discovery.
package struct EndpointSettings: Sendable, Equatable {
    /// The setting `authorization`.
    package var authorization: String?
    /// The setting `token`.
    package var token: String?
    /// `refresh`: where refreshes go when not to `token` (Clover).
    package var refresh: String?
    /// The setting `userinfo`.
    package var userinfo: String?
    /// The setting `jwks`.
    package var jwks: String?
    /// `revocation`; `{client_id}` in it is filled in (GitHub).
    package var revocation: String?
    /// The setting `introspection`.
    package var introspection: String?
    /// `end_session`: where the provider ends its own session.
    package var endSession: String?
    /// The setting `par`.
    package var par: String?
    /// `api`: the base of a provider's own API (Clever, Clover), without a slash at its end.
    package var api: String?
    /// `recovery`: Clover's recovery call.
    package var recovery: String?
    /// `migration`: where Clover trades tokens from before they expired.
    package var migration: String?

    package init(
        authorization: String? = nil, token: String? = nil, refresh: String? = nil, userinfo: String? = nil,
        jwks: String? = nil, revocation: String? = nil, introspection: String? = nil, endSession: String? = nil,
        par: String? = nil, api: String? = nil, recovery: String? = nil, migration: String? = nil
    ) {
        self.authorization = authorization
        self.token = token
        self.refresh = refresh
        self.userinfo = userinfo
        self.jwks = jwks
        self.revocation = revocation
        self.introspection = introspection
        self.endSession = endSession
        self.par = par
        self.api = api
        self.recovery = recovery
        self.migration = migration
    }

    /// The set endpoints with the names of their keys.
    package var all: [(key: String, url: String)] {
        let entries: [(String, String?)] = [
            ("authorization", authorization), ("token", token), ("refresh", refresh), ("userinfo", userinfo),
            ("jwks", jwks), ("revocation", revocation), ("introspection", introspection),
            ("end_session", endSession), ("par", par), ("api", api), ("recovery", recovery), ("migration", migration),
        ]
        return entries.compactMap { entry in entry.1.map { (entry.0, $0) } }
    }
}
