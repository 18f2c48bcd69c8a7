import Broker

/// A provider's endpoints and abilities, from its metadata and the configuration.
struct Metadata: Sendable {
    var issuer: String?
    var authorization: EndpointURL?
    var token: EndpointURL?
    var refresh: EndpointURL?
    var userinfo: EndpointURL?
    var jwks: EndpointURL?
    var revocation: EndpointURL?
    var endSession: EndpointURL?
    var pushedAuthorization: EndpointURL?
    /// `authorization_response_iss_parameter_supported` (RFC 9207).
    var promisesIssuer = false
    /// `require_pushed_authorization_requests` (RFC 9126).
    var requiresPushedAuthorization = false
    /// `code_challenge_methods_supported`; nil when the document has none.
    var challengeMethods: [String]?
    /// `token_endpoint_auth_methods_supported`; nil when the document has none.
    var tokenMethods: [String]?
    /// `revocation_endpoint_auth_methods_supported`; nil when the document has none.
    var revocationMethods: [String]?
    /// `id_token_signing_alg_values_supported`; nil when the document has none.
    var idTokenAlgorithms: [String]?
    /// `token_endpoint_auth_signing_alg_values_supported`; nil when the document has none.
    var assertionAlgorithms: [String]?

    /// Takes what the configuration fixes.
    init(issuer: String?, endpoints: EndpointSettings) {
        self.issuer = issuer
        apply(endpoints)
    }

    /// Reads a metadata document.
    ///
    /// Each endpoint has to be https (or loopback, when the issuer is); a member that is no such URL is a fault of the
    /// whole document, since a call would go where nobody meant (SEC-24).
    init(document: JSONObject, issuer: String, allows: (EndpointURL) -> Bool) throws(ProviderFailure) {
        self.issuer = issuer
        func endpoint(_ name: String) throws(ProviderFailure) -> EndpointURL? {
            guard let member = document[name], !member.isNull else { return nil }
            guard let text = member.string, let url = EndpointURL(text), allows(url) else {
                throw .unusable(detail: "metadata: \(name) is not a URL to call")
            }
            return url
        }
        authorization = try endpoint("authorization_endpoint")
        token = try endpoint("token_endpoint")
        userinfo = try endpoint("userinfo_endpoint")
        jwks = try endpoint("jwks_uri")
        revocation = try endpoint("revocation_endpoint")
        // Never called, and held to the same rule.
        _ = try endpoint("introspection_endpoint")
        endSession = try endpoint("end_session_endpoint")
        pushedAuthorization = try endpoint("pushed_authorization_request_endpoint")
        promisesIssuer = document["authorization_response_iss_parameter_supported"]?.bool ?? false
        requiresPushedAuthorization = document["require_pushed_authorization_requests"]?.bool ?? false
        func texts(_ name: String) -> [String]? { document[name]?.array?.compactMap(\.string) }
        challengeMethods = texts("code_challenge_methods_supported")
        tokenMethods = texts("token_endpoint_auth_methods_supported")
        revocationMethods = texts("revocation_endpoint_auth_methods_supported")
        idTokenAlgorithms = texts("id_token_signing_alg_values_supported")
        assertionAlgorithms = texts("token_endpoint_auth_signing_alg_values_supported")
    }

    /// Fills what this document lacks from a second one of the same issuer (revocation may stand only in the RFC 8414
    /// document: docs/providers/real-servers.md).
    mutating func fill(from other: Metadata) {
        authorization = authorization ?? other.authorization
        token = token ?? other.token
        userinfo = userinfo ?? other.userinfo
        jwks = jwks ?? other.jwks
        revocation = revocation ?? other.revocation
        endSession = endSession ?? other.endSession
        pushedAuthorization = pushedAuthorization ?? other.pushedAuthorization
        revocationMethods = revocationMethods ?? other.revocationMethods
        promisesIssuer = promisesIssuer || other.promisesIssuer
        requiresPushedAuthorization = requiresPushedAuthorization || other.requiresPushedAuthorization
    }

    /// Puts the configuration's endpoints over the discovered ones.
    mutating func apply(_ endpoints: EndpointSettings) {
        authorization = endpoints.authorization ?? authorization
        token = endpoints.token ?? token
        refresh = endpoints.refresh ?? refresh
        userinfo = endpoints.userinfo ?? userinfo
        jwks = endpoints.jwks ?? jwks
        endSession = endpoints.endSession ?? endSession
        pushedAuthorization = endpoints.par ?? pushedAuthorization
    }
}
