/// The API of an access token other than the session's own, with the exact parameters of the provider call.
package struct TokenTarget: Sendable, Hashable {
    /// The token with which the provider is asked for the access token.
    package enum Grant: String, Sendable, Hashable {
        /// The session's refresh token (RFC 6749 section 6).
        case refresh
        /// The session's access token, exchanged (RFC 8693).
        case exchange
    }

    package let grant: Grant
    /// `resource`, sent once for each value (RFC 8707), in the configuration's order.
    package let resources: [String]
    /// `audience` (RFC 8693 section 2.1; Auth0 and others accept it in a refresh, too).
    package let audience: String?
    /// `scope`; empty to leave the parameter out.
    package let scope: [String]

    package init(grant: Grant = .refresh, resources: [String] = [], audience: String? = nil, scope: [String] = []) {
        self.grant = grant
        self.resources = resources
        self.audience = audience
        self.scope = scope
    }

    /// The parameters to send, in order.
    package var parameters: [(name: String, value: String)] {
        var parameters = resources.map { (name: "resource", value: $0) }
        if let audience { parameters.append((name: "audience", value: audience)) }
        if !scope.isEmpty { parameters.append((name: "scope", value: scope.joined(separator: " "))) }
        return parameters
    }
}
