import Broker

/// `endpoints`: each endpoint in the configuration overrides the same endpoint in the metadata.
package struct EndpointSettings: Sendable, Equatable {
    /// The setting `authorization`.
    package var authorization: EndpointURL?
    /// The setting `token`.
    package var token: EndpointURL?
    /// `refresh`: the address of refreshes if it differs from `token` (Clover).
    package var refresh: EndpointURL?
    /// The setting `userinfo`.
    package var userinfo: EndpointURL?
    /// The setting `jwks`.
    package var jwks: EndpointURL?
    /// `revocation`: a URL, which may have the placeholder `{client_id}` (GitHub).
    package var revocation: String?
    /// The setting `introspection`.
    package var introspection: EndpointURL?
    /// `end_session`: the address for ending the provider's own session.
    package var endSession: EndpointURL?
    /// The setting `par`.
    package var par: EndpointURL?
    /// `api`: the base of a provider's own API (Clever, Clover), ending before any final slash.
    package var api: EndpointURL?
    /// `recovery`: Clover's recovery call.
    package var recovery: EndpointURL?
    /// `migration`: Clover's address for exchanging legacy tokens, which never expire.
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

    /// Returns the address for revoking a client's grants; nil unless a valid URL is set.
    func revocation(of clientID: String) -> EndpointURL? {
        (revocation?.replacing("{client_id}", with: FormPairs.encode(clientID))).flatMap(EndpointURL.init)
    }
}
