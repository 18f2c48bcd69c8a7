import Broker

/// `endpoints`: a set one overrides discovery.
package struct EndpointSettings: Sendable, Equatable {
    /// The setting `authorization`.
    package var authorization: EndpointURL?
    /// The setting `token`.
    package var token: EndpointURL?
    /// `refresh`: where refreshes go when not to `token` (Clover).
    package var refresh: EndpointURL?
    /// The setting `userinfo`.
    package var userinfo: EndpointURL?
    /// The setting `jwks`.
    package var jwks: EndpointURL?
    /// `revocation`: a URL in which `{client_id}` is filled in (GitHub).
    package var revocation: String?
    /// The setting `introspection`.
    package var introspection: EndpointURL?
    /// `end_session`: where the provider ends its own session.
    package var endSession: EndpointURL?
    /// The setting `par`.
    package var par: EndpointURL?
    /// `api`: the base of a provider's own API (Clever, Clover), without a slash at its end.
    package var api: EndpointURL?
    /// `recovery`: Clover's recovery call.
    package var recovery: EndpointURL?
    /// `migration`: where Clover trades tokens from before they expired.
    package var migration: EndpointURL?

    package init(
        authorization: EndpointURL? = nil, token: EndpointURL? = nil, refresh: EndpointURL? = nil,
        userinfo: EndpointURL? = nil,
        jwks: EndpointURL? = nil, revocation: String? = nil, introspection: EndpointURL? = nil,
        endSession: EndpointURL? = nil,
        par: EndpointURL? = nil, api: EndpointURL? = nil, recovery: EndpointURL? = nil, migration: EndpointURL? = nil
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

    /// Returns where a client's grants are revoked; nil where that is not set, or no URL.
    func revocation(of clientID: String) -> EndpointURL? {
        (revocation?.replacing("{client_id}", with: FormPairs.encode(clientID))).flatMap(EndpointURL.init)
    }
}
