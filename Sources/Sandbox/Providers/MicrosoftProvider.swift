import Hummingbird

/// `/microsoft`: one metadata document for all tenants; its issuer has a placeholder for `tid`.
struct MicrosoftProvider: AuthorizationServer {
    let name = "microsoft"
    let paths = [
        "/common/v2.0/.well-known/openid-configuration": "discovery", "/common/oauth2/v2.0/authorize": "authorize",
        "/common/oauth2/v2.0/token": "token", "/common/discovery/v2.0/keys": "jwks", "/oidc/userinfo": "userinfo",
        "/common/oauth2/v2.0/logout": "end_session",
    ]
    let defaults = Settings.base.merging([
        "alg": "RS256", "iss_parameter": false, "refresh_token": "offline_access", "refresh_mode": "overlap",
    ])

    func issuer(_ call: Call, grant: Grant) -> String {
        let tenant = call.state.user(grant.user)["tenant"] ?? "11111111-2222-4333-8444-555555555555"
        return call.baseURL + "/microsoft/" + tenant + "/v2.0"
    }

    func discovery(_ call: Call) -> JSON {
        ["issuer": .string(call.baseURL + "/microsoft/{tenantid}/v2.0")]
    }

    func claims(_ call: Call, grant: Grant, user: SandboxUser) -> JSON {
        var out: JSON = ["oid": .string("oid-" + user.sub), "ver": "2.0", "email_verified": .null]
        out["tid"] = user.json["tenant"]
        out["preferred_username"] = user.json["email"]
        if call.faults.has("wrong-tid") { out["tid"] = "99999999-2222-4333-8444-555555555555" }
        if call.faults.has("missing-tid") { out["tid"] = .null }
        return out
    }

    func refusal(_ call: Call, _ failure: OAuthFailure) -> Response {
        let number = failure.error == "invalid_client" ? 7_000_215 : 70_000
        return .json(
            [
                "error": .string(failure.error),
                "error_description": .string("AADSTS\(number): " + failure.description),
                "error_codes": [.int(number)], "trace_id": "00000000-0000-0000-0000-000000000001",
                "correlation_id": "00000000-0000-0000-0000-000000000002",
            ], status: failure.status)
    }
}
