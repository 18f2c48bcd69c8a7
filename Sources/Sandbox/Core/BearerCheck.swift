import HTTPTypes
import Hummingbird

/// Finds the grant of an access token.
///
/// The token is a bearer token, or it is bound to a key and comes with a proof.
struct BearerCheck {
    let call: Call

    /// Returns the grant of a bearer token; nil if the token is missing, unknown, expired or revoked.
    ///
    /// The result is also nil in two cases: the token is bound to a key; or it is bound to another certificate than that of the
    /// connection. Tokens of other providers are accepted only at `/api`.
    func grant(token: String? = nil) -> Grant? {
        guard let token = token ?? call.bearer, thumbprint(of: token) == nil else { return nil }
        return live(token)
    }

    private func thumbprint(of token: String) -> String? { call.state.with { $0.accessTokens[token]?.thumbprint } }

    private func live(_ token: String) -> Grant? {
        let now = call.now
        let name = call.provider.name
        return call.state.with { storage in
            guard let access = storage.accessTokens[token], access.expiresAt > now,
                access.certificate == nil || access.certificate == call.certificate?.thumbprint,
                let grant = storage.grants[access.grant], !grant.revoked, grant.provider == name || name == "api"
            else { return nil }
            return grant
        }
    }

    /// Whether the token is for the API `name`.
    ///
    /// For the kind `scope`, the token's scope must contain the name. Otherwise an audience of the token must equal the name,
    /// or end with a slash and the name.
    func isFor(_ name: String, by kind: String) -> Bool {
        guard let token = call.proven ?? call.bearer, let access = call.state.with({ $0.accessTokens[token] }) else {
            return false
        }
        return kind == "scope"
            ? access.scope.split(separator: " ").contains { $0 == name }
            : access.audience.contains { $0 == name || $0.hasSuffix("/" + name) }
    }

    /// The grant of a request, or the answer that refuses the request.
    ///
    /// A token that is bound to a key must be sent with the scheme `DPoP` and a proof.
    enum Outcome {
        case grant(Grant)
        case refused(Response)
    }

    func outcome() async -> Outcome {
        guard let token = call.proven else { return grant().map(Outcome.grant) ?? .refused(challenge()) }
        let proof = ProofOfPossession(call: call, role: .resource)
        do throws(OAuthFailure) {
            let shown = try await proof.check()
            guard let shown, shown.thumbprint == thumbprint(of: token),
                shown.tokenHash == Digest256.base64url(token), let grant = live(token)
            else { return .refused(challenge("DPoP", "invalid_token")) }
            return .grant(grant)
        } catch {
            return .refused(challenge("DPoP", error.error))
        }
    }

    /// A 401 in the form of RFC 6750 section 3 and RFC 9449 section 7.1.
    func challenge(_ scheme: String = "Bearer", _ error: String = "invalid_token") -> Response {
        let scheme = call.faults.has("inverted-scheme") ? FAPI2Server.inverted(scheme) : scheme
        return .json(
            [
                "error": .string(error),
                "error_description": "The access token is unknown, has expired, or lacks its proof.",
            ],
            status: 401,
            headers: [("WWW-Authenticate", #"\#(scheme) realm="sandbox", error="\#(error)""#)])
    }
}
