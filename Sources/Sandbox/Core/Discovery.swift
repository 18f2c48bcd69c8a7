import Hummingbird

/// The metadata document and the key set.
struct Discovery {
    let server: any AuthorizationServer
    let call: Call

    func document() -> Response {
        let issuer = call.baseURL + server.issuerPath
        func url(_ endpoint: String) -> JSON? {
            server.paths.first { $0.value == endpoint }.map { .string(issuer + $0.key) }
        }
        var out: JSON = ["issuer": .string(issuer)]
        out["authorization_endpoint"] = url("authorize")
        out["token_endpoint"] = url("token")
        out["userinfo_endpoint"] = url("userinfo")
        out["jwks_uri"] = url("jwks")
        out["revocation_endpoint"] = url("revoke")
        out["introspection_endpoint"] = url("introspect")
        out["end_session_endpoint"] = url("end_session")
        if let par = url("par") {
            out["pushed_authorization_request_endpoint"] = par
            out["require_pushed_authorization_requests"] = .bool(call.settings.flag("require_par"))
        }
        out["response_types_supported"] = ["code"]
        out["response_modes_supported"] = ["query", "form_post"]
        out["grant_types_supported"] = ["authorization_code", "refresh_token"]
        if call.settings.text("exchange") != "off" {
            out["grant_types_supported"] = [
                "authorization_code", "refresh_token", .string(TokenEndpoint.exchangeGrant),
            ]
        }
        out["subject_types_supported"] = ["public"]
        out["id_token_signing_alg_values_supported"] = .array(KeyRings.algorithms.map { .string($0) })
        out["scopes_supported"] = ["openid", "profile", "email", "offline_access"]
        out["token_endpoint_auth_methods_supported"] = [
            "none", "client_secret_basic", "client_secret_post", "client_secret_jwt", "private_key_jwt",
        ]
        out["token_endpoint_auth_signing_alg_values_supported"] = .array(KeyRings.algorithms.map { .string($0) })
        if ["accept", "require"].contains(call.settings.text("dpop")) {
            out["dpop_signing_alg_values_supported"] = ["ES256"]
        }
        let secure = call.state.with { $0.mutualTLSURL }
        if !secure.isEmpty {
            out["tls_client_certificate_bound_access_tokens"] = true
            let known = out["token_endpoint_auth_methods_supported"]?.elements ?? []
            out["token_endpoint_auth_methods_supported"] = .array(
                known + SandboxClient.certificateMethods.sorted().map { .string($0) })
            var aliases: JSON = [:]
            for (member, endpoint) in [
                ("token_endpoint", "token"), ("userinfo_endpoint", "userinfo"), ("revocation_endpoint", "revoke"),
                ("introspection_endpoint", "introspect"), ("pushed_authorization_request_endpoint", "par"),
            ] {
                guard let path = server.paths.first(where: { $0.value == endpoint })?.key else { continue }
                aliases[member] = .string(secure + server.issuerPath + path)
            }
            out["mtls_endpoint_aliases"] = aliases
        }
        out["code_challenge_methods_supported"] = ["S256"]
        out["claims_supported"] = ["sub", "name", "given_name", "family_name", "email", "email_verified", "sid"]
        out["backchannel_logout_supported"] = true
        out["backchannel_logout_session_supported"] = true
        if call.settings.flag("iss_parameter") { out["authorization_response_iss_parameter_supported"] = true }
        if !server.isOpenID {
            for name in [
                "subject_types_supported", "id_token_signing_alg_values_supported", "claims_supported",
                "backchannel_logout_supported", "backchannel_logout_session_supported",
            ] { out[name] = nil }
        }
        out = out.merging(server.discovery(call))
        out = FAPI2Server(call: call).metadata(out)
        if let extra = call.settings.json["discovery"] { out = out.merging(extra) }
        if call.faults.has("discovery-issuer-mismatch") { out["issuer"] = .string(issuer + "/other") }
        if call.faults.has("discovery-issuer-slash") { out["issuer"] = .string(issuer + "/") }
        if call.faults.has("discovery-no-issuer") { out["issuer"] = nil }
        if call.faults.has("discovery-no-jwks-uri") { out["jwks_uri"] = nil }
        if call.faults.has("discovery-no-end-session") { out["end_session_endpoint"] = nil }
        if call.faults.has("discovery-no-token-endpoint") { out["token_endpoint"] = nil }
        if call.faults.has("discovery-no-iss-parameter") {
            out["authorization_response_iss_parameter_supported"] = nil
        }
        Quirks.change(metadata: &out, by: call.faults)
        if call.faults.has("discovery-not-object") { out = ["not an object"] }
        return .text(out.serialized, type: "application/json", headers: [("Cache-Control", "public, max-age=300")])
    }

    func keys() async throws -> Response {
        let entries = try await call.state.keys.published(server.name)
        var keys = entries.map(\.jwk)
        if let algorithm = call.settings.json["jwks_only"]?.text {
            keys = entries.filter { $0.algorithm == algorithm }.map(\.jwk)
        }
        if call.faults.has("kid-absent-single-jwks") {
            let algorithm = call.settings.text("alg")
            keys = entries.filter { $0.algorithm == algorithm }.prefix(1).map { without(["kid"], $0.jwk) }
        }
        if call.faults.has("kid-absent-multiple-jwks") {
            let algorithm = call.settings.text("alg")
            let current = entries.filter { $0.algorithm == algorithm }.prefix(1).map(\.jwk)
            let foreign = try await SigningKey.make(algorithm: algorithm, generation: -1).publicJWK
                .merging(["alg": .string(algorithm), "use": "sig"])
            keys = (current + [foreign]).map { without(["kid"], $0) }
        }
        if call.faults.has("jwks-no-alg") { keys = keys.map { without(["alg"], $0) } }
        if call.faults.has("jwks-empty") { keys = [] }
        if call.faults.has("jwks-strange-keys") {
            keys =
                [
                    ["kty": "oct", "k": "c2VjcmV0", "kid": "strange-1"],
                    ["kty": "EC", "crv": "P-999", "kid": "strange-2"],
                    ["kid": "strange-3"], "not a key",
                ] + keys
        }
        keys = try await Quirks.keys(keys, call.faults)
        let set: JSON = ["keys": .array(keys)]
        return .text(set.serialized, type: "application/json", headers: [("Cache-Control", "public, max-age=60")])
    }

    private func without(_ names: [String], _ jwk: JSON) -> JSON {
        var jwk = jwk
        for name in names { jwk[name] = nil }
        return jwk
    }
}
