import HTTPTypes
import Hummingbird

/// An emulated OAuth 2.0 server.
///
/// The members of this protocol are the points in which real providers differ.
protocol AuthorizationServer: SandboxProvider {
    /// The path of the issuer, for example `/oidc`.
    var issuerPath: String { get }
    /// The names of the endpoints, by their path under the issuer.
    var paths: [String: String] { get }
    /// Whether the server issues id_tokens.
    var isOpenID: Bool { get }

    /// The issuer in a token.
    func issuer(_ call: Call, grant: Grant) -> String
    /// The issuer in a callback; `grant` is nil for an error.
    func callbackIssuer(_ call: Call, grant: Grant?) -> String
    /// The members of the discovery document that replace the usual ones; null removes a member.
    func discovery(_ call: Call) -> JSON
    /// Authenticates the client and returns its id.
    func authenticate(_ call: Call, form: Pairs) async throws -> String
    /// The fields of a token call, read from the provider's body format.
    func tokenForm(_ call: Call) throws -> Pairs
    /// The answer of a successful token call.
    func tokenAnswer(_ call: Call, grant: Grant, members: JSON) -> Response
    /// The answer to a refused token call.
    func refusal(_ call: Call, _ failure: OAuthFailure) -> Response
    /// Whether this grant gets a refresh token.
    func issuesRefreshToken(_ call: Call, grant: Grant, refreshing: Bool) -> Bool
    /// Whether this grant gets an id_token.
    func issuesIDToken(_ call: Call, grant: Grant) -> Bool
    /// Whether the redirect URI in the token call fits the redirect URI of the code.
    func accepts(redirectURI: String?, for code: IssuedCode, grant: Grant) -> Bool
    /// Claims that replace the usual ones in the id_token.
    func claims(_ call: Call, grant: Grant, user: SandboxUser) -> JSON
    /// Parameters of the callback in addition to code, state and iss.
    func callbackExtras(_ call: Call, grant: Grant, user: SandboxUser) -> Pairs
    /// The parameters of an error callback, in addition to state and iss.
    func callbackError(_ call: Call, error: String, description: String) -> Pairs
    /// Handles a call to an endpoint that only this provider has.
    func extra(_ call: Call) async throws -> Response
}

extension AuthorizationServer {
    var issuerPath: String { "/" + name }
    var isOpenID: Bool { true }

    func endpoint(method: String, path: String) -> String? {
        if path.hasPrefix("/.well-known/") {
            let document = path.dropFirst("/.well-known/".count)
            for known in ["oauth-authorization-server", "openid-configuration"]
            where document == known + issuerPath { return "discovery" }
            return nil
        }
        guard path.hasPrefix(issuerPath + "/") else { return nil }
        return paths[String(path.dropFirst(issuerPath.count))]
    }

    func issuer(_ call: Call, grant: Grant) -> String { call.baseURL + issuerPath }
    func callbackIssuer(_ call: Call, grant: Grant?) -> String {
        grant.map { issuer(call, grant: $0) } ?? call.baseURL + issuerPath
    }
    func discovery(_ call: Call) -> JSON { [:] }
    func authenticate(_ call: Call, form: Pairs) async throws -> String {
        try await ClientAuthentication(call: call, issuer: call.baseURL + issuerPath, paths: paths).check(form: form)
    }
    func tokenForm(_ call: Call) throws -> Pairs {
        guard let form = call.form else { throw OAuthFailure.request("application/x-www-form-urlencoded is wanted") }
        return form
    }
    func tokenAnswer(_ call: Call, grant: Grant, members: JSON) -> Response { .json(members) }
    func refusal(_ call: Call, _ failure: OAuthFailure) -> Response {
        .json(
            ["error": .string(failure.error), "error_description": .string(failure.description)],
            status: failure.status,
            headers: failure.status == 401 ? [("WWW-Authenticate", #"Basic realm="sandbox""#)] : [])
    }
    func issuesRefreshToken(_ call: Call, grant: Grant, refreshing: Bool) -> Bool {
        switch call.settings.text("refresh_token") {
        case "never": false
        case "offline_access": grant.scopes.contains("offline_access")
        default: true
        }
    }
    func issuesIDToken(_ call: Call, grant: Grant) -> Bool { isOpenID && grant.scopes.contains("openid") }
    func accepts(redirectURI: String?, for code: IssuedCode, grant: Grant) -> Bool {
        code.redirectURI == nil || code.redirectURI == redirectURI
    }
    func claims(_ call: Call, grant: Grant, user: SandboxUser) -> JSON { [:] }
    func callbackExtras(_ call: Call, grant: Grant, user: SandboxUser) -> Pairs { Pairs() }
    func callbackError(_ call: Call, error: String, description: String) -> Pairs {
        Pairs([("error", error), ("error_description", description)])
    }
    func extra(_ call: Call) async throws -> Response { .text("no such path\n", status: 404) }

    func handle(_ call: Call) async throws -> Response { try await standard(call) }

    /// Handles a call to an endpoint that all servers have.
    func standard(_ call: Call) async throws -> Response {
        let answer = try await plain(call)
        switch call.endpoint {
        case "token", "refresh", "exchange", "par":
            return ProofOfPossession(call: call, role: .authorization).give(answer)
        case "userinfo": return ProofOfPossession(call: call, role: .resource).give(answer)
        default: return answer
        }
    }

    private func plain(_ call: Call) async throws -> Response {
        do {
            switch call.endpoint {
            case "discovery": return Discovery(server: self, call: call).document()
            case "jwks": return try await Discovery(server: self, call: call).keys()
            case "authorize": return try await Authorize(server: self, call: call).answer()
            case "token", "refresh", "exchange": return try await TokenEndpoint(server: self, call: call).answer()
            case "userinfo": return try await UserInfo(server: self, call: call).answer()
            case "revoke": return try await revoke(call)
            case "introspect": return try await introspect(call)
            case "par": return try await PushedAuthorization(server: self, call: call).answer()
            case "end_session": return try await EndSession(server: self, call: call).answer()
            default: return try await extra(call)
            }
        } catch let failure as OAuthFailure {
            return refusal(call, failure)
        }
    }

    /// Revokes a token (RFC 7009).
    ///
    /// The answer for an unknown token is 200 as well.
    private func revoke(_ call: Call) async throws -> Response {
        guard let form = call.form else { throw OAuthFailure.request("a form body is wanted") }
        let client = try await authenticate(call, form: form)
        guard let token = form["token"] else { throw OAuthFailure.request("token is missing") }
        call.state.with { storage in
            let grant = storage.accessTokens[token]?.grant ?? storage.refreshTokens[token]?.grant
            if let grant, storage.grants[grant]?.clientID == client { storage.revoke(grant: grant) }
        }
        return .empty(200)
    }

    /// Describes a token (RFC 7662).
    private func introspect(_ call: Call) async throws -> Response {
        guard let form = call.form else { throw OAuthFailure.request("a form body is wanted") }
        _ = try await authenticate(call, form: form)
        guard let token = form["token"] else { throw OAuthFailure.request("token is missing") }
        let now = call.now
        let found = call.state.with { storage -> (Grant, Double, AccessToken?)? in
            let access = storage.accessTokens[token]
            let refresh = storage.refreshTokens[token].flatMap { $0.spent ? nil : ($0.grant, $0.expiresAt) }
            guard let (id, expiresAt) = access.map({ ($0.grant, $0.expiresAt) }) ?? refresh, expiresAt > now,
                let grant = storage.grants[id], !grant.revoked
            else { return nil }
            return (grant, expiresAt, access)
        }
        guard let (grant, expiresAt, access) = found else { return .json(["active": false]) }
        var members: JSON = [
            "active": true, "sub": .string(call.state.user(grant.user).sub), "client_id": .string(grant.clientID),
            "scope": .string(access?.scope ?? grant.scope), "exp": .int(Int(expiresAt)),
            "iss": .string(issuer(call, grant: grant)),
            "token_type": "Bearer",
        ]
        if let audience = access?.audience, !audience.isEmpty { members["aud"] = .array(audience.map { .string($0) }) }
        if let certificate = access?.certificate {
            members["cnf"] = ["x5t#S256": .string(certificate)]
        }
        return .json(members)
    }
}
