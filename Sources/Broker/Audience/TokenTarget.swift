/// The API that an access token is to be for, beside the session's own: the exact parameters that the provider is asked with.
package struct TokenTarget: Sendable, Hashable {
    /// The grant by which the provider gives it.
    package enum Grant: String, Sendable, Hashable {
        /// The session's refresh token (RFC 6749 section 6).
        case refresh
        /// The session's access token, exchanged (RFC 8693).
        case exchange
    }

    package let grant: Grant
    /// `resource`, once for each (RFC 8707), in the configuration's order.
    package let resources: [String]
    /// `audience` (RFC 8693 section 2.1; Auth0 and others take it in a refresh, too).
    package let audience: String?
    /// `scope`; empty where none is asked for.
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
