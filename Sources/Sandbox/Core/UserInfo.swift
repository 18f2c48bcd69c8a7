import HTTPTypes
import Hummingbird

/// The userinfo endpoint (OpenID Connect Core section 5.3).
struct UserInfo {
    let server: any AuthorizationServer
    let call: Call

    func answer() async throws -> Response {
        let grant: Grant
        switch await BearerCheck(call: call).outcome() {
        case .grant(let found): grant = found
        case .refused(let refusal): return refusal
        }
        let user = call.state.user(grant.user)
        var out: JSON = ["sub": .string(user.sub)]
        out = out.merging(user.claims(scope: grant.scopes)).merging(extras(grant, user))
        if let userinfo = user.json["userinfo"] { out = out.merging(userinfo) }
        let faults = call.faults
        if faults.has("userinfo-invalid-sub") { out["sub"] = "somebody-else" }
        if faults.has("userinfo-missing-sub") { out["sub"] = nil }
        if faults.has("userinfo-sub-number") { out["sub"] = 4711 }
        if faults.has("userinfo-not-object") { return .json(.array([out])) }
        if faults.has("userinfo-signed") {
            let signed: JSON = ["iss": .string(server.issuer(call, grant: grant)), "aud": .string(grant.clientID)]
            let key = try await call.state.keys.current(server.name, algorithm: call.settings.text("alg"))
            return .text(
                try JWTWriter.sign(signed.merging(out), header: ["typ": "JWT"], with: key), type: "application/jwt")
        }
        return .json(Quirks.identity(out, faults))
    }

    private func extras(_ grant: Grant, _ user: SandboxUser) -> JSON {
        guard server.name.hasPrefix("cloudentity") else { return [:] }
        return [
            "tid": "example", "aid": "demo", "aud": .array([.string(grant.clientID)]), "idp": "idp-1",
            "idp_method": "oidc",
        ]
    }
}
