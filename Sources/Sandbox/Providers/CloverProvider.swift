import HTTPTypes
import Hummingbird

/// `/clover-web` and `/clover-api`: two hosts, JSON only, absolute expiries, and single-use refresh with a recovery call.
struct CloverProvider: AuthorizationServer {
    let name = "clover"
    let prefixes = ["clover-web", "clover-api"]
    let issuerPath = "/clover-web"
    let isOpenID = false
    let paths = [
        "/clover-web/oauth/v2/authorize": "authorize", "/clover-web/launch": "launch",
        "/clover-api/oauth/v2/token": "token", "/clover-api/oauth/v2/refresh": "refresh",
        "/clover-api/oauth/v2/recovery": "recovery", "/clover-api/oauth/token/migrate_v2": "migrate",
    ]
    let defaults = Settings.base.merging([
        "iss_parameter": false, "refresh_mode": "rotate", "code_lifetime": 60, "access_token_lifetime": 1800,
        "refresh_token_lifetime": 31_536_000, "response_type_optional": true, "challenge_method_optional": true,
    ])

    func endpoint(method: String, path: String) -> String? {
        if let known = paths[path] { return known }
        guard path.hasPrefix("/clover-api/v3/merchants/") else { return nil }
        return path.contains("/employees") ? "employees" : "merchant"
    }

    func tokenForm(_ call: Call) throws -> Pairs {
        guard call.contentType == "application/json" else {
            throw OAuthFailure(status: 415, error: "unsupported_media_type", description: "Unsupported Media Type")
        }
        guard let body = call.json else { throw OAuthFailure.request("malformed JSON") }
        var form = Pairs()
        for member in body.members ?? [] { form.add(member.name, member.value.text) }
        guard form["grant_type"] == nil, form["redirect_uri"] == nil else {
            throw OAuthFailure.request("unknown field")
        }
        form.add("grant_type", call.endpoint == "token" ? "authorization_code" : "refresh_token")
        return form
    }

    /// Reads the credentials from the body.
    ///
    /// A refresh has no secret. A code needs exactly one of secret and verifier.
    func authenticate(_ call: Call, form: Pairs) async throws -> String {
        guard call.headers[.authorization] == nil else { throw OAuthFailure.client("credentials belong in the body") }
        guard let id = form["client_id"] else { throw OAuthFailure.client("client_id is missing") }
        if call.endpoint == "refresh" { return id }
        if let secret = form["client_secret"] {
            guard form["code_verifier"] == nil else { throw OAuthFailure.request("secret and verifier") }
            return try ClientAuthentication(call: call, issuer: "", paths: [:])
                .check(id: id, secret: secret, method: "client_secret_post")
        }
        guard form["code_verifier"] != nil else { throw OAuthFailure.client("neither secret nor verifier") }
        return id
    }

    func accepts(redirectURI: String?, for code: IssuedCode, grant: Grant) -> Bool { true }

    func issuesRefreshToken(_ call: Call, grant: Grant, refreshing: Bool) -> Bool {
        call.queryPairs["no_refresh_token"] != "true"
    }

    func tokenAnswer(_ call: Call, grant: Grant, members: JSON) -> Response {
        let now = Int(call.now)
        var out: JSON = [:]
        out["access_token"] = members["access_token"]
        if let lifetime = members["expires_in"] {
            out["access_token_expiration"] = lifetime.number.map { .int(now + $0) } ?? lifetime
        }
        if let refresh = members["refresh_token"] {
            out["refresh_token"] = refresh
            out["refresh_token_expiration"] = .int(now + Int(call.settings.seconds("refresh_token_lifetime")))
        }
        if let error = members["error"] { out = ["error": error] }
        return .json(out)
    }

    func refusal(_ call: Call, _ failure: OAuthFailure) -> Response {
        let status = failure.status == 400 && failure.error == "invalid_grant" ? 401 : failure.status
        var headers: [(String, String)] = []
        if call.endpoint == "refresh", recoverable(call) { headers.append(("X-Clover-Recovery-Available", "true")) }
        let title = status == 401 ? "Unauthorized" : status == 415 ? "Unsupported Media Type" : "Bad Request"
        let message =
            failure.error == "invalid_grant" && call.endpoint == "token"
            ? "Failed to validate authentication code." : failure.description
        return .json(["status": .string(title), "message": .string(message)], status: status, headers: headers)
    }

    /// Returns whether the refused refresh token is the predecessor of the valid refresh token.
    private func recoverable(_ call: Call) -> Bool {
        guard let token = call.json?["refresh_token"]?.text else { return false }
        return call.state.with { Self.successor(of: token, in: $0) != nil }
    }

    private static func successor(of token: String, in storage: borrowing Storage) -> String? {
        guard let old = storage.refreshTokens[token], old.spent, let next = old.successor,
            storage.refreshTokens[next]?.spent == false, storage.grants[old.grant]?.revoked == false
        else { return nil }
        return next
    }

    func callbackExtras(_ call: Call, grant: Grant, user: SandboxUser) -> Pairs {
        var out = Pairs()
        out.add("merchant_id", call.faults["wrong-merchant-callback"]?.value?.text ?? user["merchant_id"])
        out.add("employee_id", user["employee_id"])
        out.add("client_id", grant.clientID)
        return out
    }

    func handle(_ call: Call) async throws -> Response {
        switch call.endpoint {
        case "authorize":
            guard siteAllows(call) else {
                return .page("Not possible", "<p>redirect_uri is not under the Site URL.</p>", status: 400)
            }
            return try await standard(call)
        case "launch":
            // Clover's dashboard opens the app's Site URL with the id of the merchant. The state is missing.
            guard let target = call.queryPairs["redirect_uri"] else { return .text("redirect_uri\n", status: 400) }
            let user = call.state.user(call.queryPairs["sandbox_user"] ?? "ana")
            var back = Pairs()
            back.add("merchant_id", user["merchant_id"])
            back.add("client_id", call.queryPairs["client_id"])
            if call.queryPairs["sandbox_code"] == "1" { back.add("code", Random.token("v1-")) }
            return .found(back.added(to: target))
        case "recovery": return try await recover(call)
        case "migrate": return migrate(call)
        case "merchant", "employees": return api(call)
        default: return try await standard(call)
        }
    }

    private func siteAllows(_ call: Call) -> Bool {
        guard let id = call.queryPairs["client_id"], let site = call.state.client(id, at: name)?.json["site_url"]?.text,
            let target = call.queryPairs["redirect_uri"]
        else { return true }
        return target == site || target.hasPrefix(site.hasSuffix("/") ? site : site + "/")
    }

    /// Exchanges the predecessor of the valid refresh token for a new pair of tokens, for high-trust clients only.
    private func recover(_ call: Call) async throws -> Response {
        guard call.contentType == "application/json", let body = call.json else {
            return .json(["status": "Unsupported Media Type", "message": "JSON"], status: 415)
        }
        let unauthorized = Response.json(["status": "Unauthorized", "message": "Not recoverable."], status: 401)
        guard let id = body["client_id"]?.text, let secret = body["client_secret"]?.text,
            let token = body["recovery_token"]?.text,
            (try? ClientAuthentication(call: call, issuer: "", paths: [:])
                .check(id: id, secret: secret, method: "client_secret_post")) != nil
        else { return unauthorized }
        let replacement = call.state.with { storage -> String? in
            guard let next = Self.successor(of: token, in: storage), let old = storage.refreshTokens[token],
                storage.grants[old.grant]?.clientID == id
            else { return nil }
            storage.refreshTokens[next]?.spent = true
            let fresh = Random.token("rt-")
            storage.refreshTokens[fresh] = RefreshToken(grant: old.grant, expiresAt: old.expiresAt)
            storage.refreshTokens[token]?.successor = fresh
            return fresh
        }
        guard let replacement, let grantID = call.state.with({ $0.refreshTokens[replacement]?.grant }) else {
            return unauthorized
        }
        let lifetime = call.settings.seconds("access_token_lifetime")
        let access = Random.token("at-")
        let expiry = call.now + lifetime
        call.state.with {
            $0.accessTokens[access] = AccessToken(grant: grantID, expiresAt: expiry, refreshed: true)
        }
        return .json([
            "access_token": .string(access), "access_token_expiration": .int(Int(expiry)),
            "refresh_token": .string(replacement),
            "refresh_token_expiration": .int(Int(call.now + call.settings.seconds("refresh_token_lifetime"))),
        ])
    }

    /// Exchanges a token from before October 2023 for a code of the same app and merchant.
    private func migrate(_ call: Call) -> Response {
        guard call.contentType == "application/json", let body = call.json else {
            return .json(["status": "Unsupported Media Type", "message": "JSON"], status: 415)
        }
        let unauthorized = Response.json(["status": "Unauthorized", "message": "Not a token to migrate."], status: 401)
        guard let token = body["auth_token"]?.text, token.hasPrefix("v1-"),
            let grant = BearerCheck(call: call).grant(token: token),
            body["app_uuid"]?.text == grant.clientID,
            body["merchant_uuid"]?.text == call.state.user(grant.user)["merchant_id"]
        else { return unauthorized }
        let code = Random.token("c-")
        let expiresAt = call.now + call.settings.seconds("code_lifetime")
        let issued = IssuedCode(
            grant: grant.id, redirectURI: nil, challenge: body["code_challenge"]?.text, expiresAt: expiresAt)
        call.state.with { $0.codes[code] = issued }
        return .json(["authorization_code": .string(code), "expiration": .int(Int(expiresAt))])
    }

    private func api(_ call: Call) -> Response {
        guard let grant = BearerCheck(call: call).grant() else {
            return .json(["message": "401 Unauthorized"], status: 401)
        }
        let user = call.state.user(grant.user)
        let merchant = user["merchant_id"] ?? ""
        let segments = call.path.split(separator: "/").map(String.init)
        // The segments of the path are: clover-api / v3 / merchants / ID / employees / ID
        guard segments.count >= 4, segments[3] == merchant else { return .json(["message": "Forbidden"], status: 401) }
        if call.endpoint == "merchant" {
            guard segments.count == 4 else { return .json(["message": "Not Found"], status: 404) }
            var id = merchant
            if call.faults.has("userinfo-invalid-sub") { id = "MOTHER0000001" }
            var out: JSON = ["id": .string(id), "name": .string((user["given_name"] ?? "") + "'s Coffee")]
            if call.queryPairs["expand"]?.contains("owner") == true {
                out["owner"] = ["id": .string(user["employee_id"] ?? ""), "name": user.json["name"] ?? .null]
            }
            return .json(out)
        }
        let employees = [employee(user), employee(call.state.user("ben")), employee(call.state.user("cleo"))]
        if segments.count == 5 {
            return .json(["elements": .array(employees), "href": .string(call.baseURL + call.path)])
        }
        // A merchant's token can read every employee of the merchant.
        let found = employees.first { $0["id"]?.text == segments[5] }
        return found.map { .json($0) } ?? .json(["message": "Not Found"], status: 404)
    }

    private func employee(_ user: SandboxUser) -> JSON {
        var out: JSON = [
            "id": user.json["employee_id"] ?? .null, "name": user.json["name"] ?? .null, "nickname": .string(user.name),
            "customId": "", "pin": "123456", "unhashedPin": "123456", "role": "ADMIN",
            "isOwner": .bool(user.name == "ana"),
        ]
        out["email"] = user.json["email"]
        return out
    }
}
