import HTTPTypes
import Hummingbird

/// A vendor's plain OAuth 2.0 according to its documents, including its peculiarities.
///
/// Examples of peculiarities are the alphabet of tokens, the places of errors and users, and the names of parameters.
struct VendorProvider: AuthorizationServer {
    let name: String
    let isOpenID: Bool
    let paths: [String: String]
    let defaults: JSON
    /// Returns the answer of the vendor's identity endpoint; nil for a userinfo endpoint.
    var person: (@Sendable (SandboxUser) -> JSON)?
    /// The vendor's own name for the parameter `client_id`.
    var clientParameter = "client_id"
    /// Returns the answer for a refused token call; nil if the vendor answers as in RFC 6749.
    var failure: (@Sendable (OAuthFailure) -> JSON)?

    private static func settings(prefix: String, _ more: JSON = [:]) -> JSON {
        Settings.base.merging(["iss_parameter": false, "token_prefix": .string(prefix)]).merging(more)
    }

    static let all: [VendorProvider] = [
        salesforce, cognito, tiktok, amazon, ebay, asana, fitbit, hubspot,
    ]

    static let salesforce = VendorProvider(
        name: "salesforce", isOpenID: true,
        paths: [
            "/.well-known/openid-configuration": "discovery", "/services/oauth2/authorize": "authorize",
            "/services/oauth2/token": "token", "/services/oauth2/userinfo": "userinfo", "/id/keys": "jwks",
            "/services/oauth2/revoke": "revoke", "/services/oauth2/introspect": "introspect",
        ],
        defaults: settings(prefix: "00D5g000004!AQ8AQ.", ["alg": "RS256", "token_answer": ["expires_in": .null]]))

    static let cognito = VendorProvider(
        name: "cognito", isOpenID: true,
        paths: [
            "/.well-known/openid-configuration": "discovery", "/oauth2/authorize": "authorize",
            "/oauth2/token": "token", "/oauth2/userInfo": "userinfo", "/.well-known/jwks.json": "jwks",
            "/oauth2/revoke": "revoke",
        ],
        defaults: settings(prefix: "", ["alg": "RS256", "refresh_mode": "keep"]),
        // Cognito's userinfo has texts for OpenID Connect's booleans.
        person: { user in
            [
                "sub": .string(user.sub), "username": .string(user.name), "email": user.json["email"] ?? .null,
                "email_verified": .string(user.json["email_verified"]?.flag == true ? "true" : "false"),
            ]
        })

    static let tiktok = VendorProvider(
        name: "tiktok", isOpenID: false,
        paths: [
            "/v2/auth/authorize/": "authorize", "/v2/oauth/token/": "token", "/v2/user/info/": "userinfo",
            "/v2/oauth/revoke/": "revoke",
        ],
        defaults: settings(prefix: "act.!"),
        person: { user in
            [
                "data": ["user": ["open_id": .string(user.sub), "display_name": user.json["name"] ?? .null]],
                "error": ["code": "ok", "message": "", "log_id": "20260101000000"],
            ]
        }, clientParameter: "client_key")

    static let amazon = VendorProvider(
        name: "amazon", isOpenID: false,
        paths: ["/ap/oa": "authorize", "/auth/o2/token": "token", "/user/profile": "userinfo"],
        defaults: settings(prefix: "Atza|"),
        person: { user in
            [
                "user_id": .string("amzn1.account." + user.sub), "name": user.json["name"] ?? .null,
                "email": user.json["email"] ?? .null,
            ]
        })

    static let ebay = VendorProvider(
        name: "ebay", isOpenID: false,
        paths: [
            "/oauth2/authorize": "authorize", "/identity/v1/oauth2/token": "token",
            "/commerce/identity/v1/user/": "userinfo",
        ],
        defaults: settings(
            prefix: "v^1.1#i^1#",
            [
                "refresh_mode": "keep", "token_answer": ["token_type": "User Access Token"],
                "redirect_names": ["Sandbox-RuName": "com.example.app:/oauth2redirect"],
            ]),
        person: { user in ["userId": .string(user.sub), "username": user.json["name"] ?? .null] })

    static let asana = VendorProvider(
        name: "asana", isOpenID: false,
        paths: [
            "/-/oauth_authorize": "authorize", "/-/oauth_token": "token", "/-/oauth_revoke": "revoke",
            "/api/1.0/users/me": "userinfo",
        ],
        defaults: settings(prefix: "2/1201:", ["refresh_mode": "keep"]),
        person: { user in
            [
                "data": [
                    "gid": .string(user["id"] ?? "1"), "name": user.json["name"] ?? .null,
                    "email": user.json["email"] ?? .null,
                ]
            ]
        })

    static let fitbit = VendorProvider(
        name: "fitbit", isOpenID: false,
        paths: [
            "/oauth2/authorize": "authorize", "/oauth2/token": "token", "/oauth2/revoke": "revoke",
            "/1/user/-/profile.json": "userinfo",
        ],
        defaults: settings(prefix: ""),
        person: { user in
            ["user": ["encodedId": .string(user.sub), "displayName": user.json["name"] ?? .null]]
        },
        failure: { failure in
            [
                "errors": [["errorType": .string(failure.error), "message": .string(failure.description)]],
                "success": false,
            ]
        })

    static let hubspot = VendorProvider(
        name: "hubspot", isOpenID: false,
        paths: ["/oauth/authorize": "authorize", "/oauth/v3/token": "token", "/account-info/v3/details": "userinfo"],
        defaults: settings(prefix: "", ["refresh_mode": "keep"]),
        person: { user in ["portalId": user.json["id"] ?? .int(1), "timeZone": "Europe/Berlin"] },
        failure: { failure in
            [
                "error": .string(failure.error), "error_description": .string(failure.description),
                "status": failure.error == "invalid_grant" ? "BAD_REFRESH_TOKEN" : "BAD_REQUEST",
                "message": .string(failure.description), "correlationId": "00000000-0000-0000-0000-000000000000",
            ]
        })

    func refusal(_ call: Call, _ refused: OAuthFailure) -> Response {
        if let failure { return .json(failure(refused), status: refused.status) }
        return .json(
            ["error": .string(refused.error), "error_description": .string(refused.description)],
            status: refused.status)
    }

    /// Returns the redirect URI for a name in the setting `redirect_names`.
    ///
    /// For any other text, returns the text itself.
    private func redirect(_ text: String, _ call: Call) -> String {
        call.settings.json["redirect_names"]?[text]?.text ?? text
    }

    func accepts(redirectURI: String?, for code: IssuedCode, grant: Grant) -> Bool {
        guard let names = defaults["redirect_names"] else {
            return code.redirectURI == nil || code.redirectURI == redirectURI
        }
        return redirectURI.flatMap { names[$0]?.text } == code.redirectURI
    }

    func handle(_ call: Call) async throws -> Response {
        if call.endpoint == "userinfo", let person { return identity(call, person) }
        var call = call
        guard call.endpoint == "authorize" else {
            guard clientParameter != "client_id", let form = call.form else { return try await standard(call) }
            if form["client_id"] != nil {
                return refusal(call, .request("\(clientParameter) is wanted, not client_id"))
            }
            call.body = Array(
                Pairs(form.all.map { ($0.name == clientParameter ? "client_id" : $0.name, $0.value) }).encoded.utf8)
            return try await standard(call)
        }
        call.query =
            Pairs(
                call.queryPairs.all.map { pair in
                    let name = pair.name == clientParameter ? "client_id" : pair.name
                    return (name, name == "redirect_uri" ? redirect(pair.value, call) : pair.value)
                }
            ).encoded
        return try await standard(call)
    }

    private func identity(_ call: Call, _ person: (SandboxUser) -> JSON) -> Response {
        guard let grant = BearerCheck(call: call).grant() else { return BearerCheck(call: call).challenge() }
        let user = call.state.user(grant.user)
        return .json(Quirks.identity(user.json["userinfo"].map(person(user).merging) ?? person(user), call.faults))
    }
}
