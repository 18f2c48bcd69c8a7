import HTTPTypes
import Hummingbird

/// `/zephr`: social sign-in with codes that Zephr redeems itself, sessions, and registration by state key.
struct ZephrProvider: SandboxProvider {
    let name = "zephr"
    let defaults: JSON = [
        "slugs": ["google", "apple", "facebook", "linkedin"],
        "redirects": [
            "ios": "my-app:/oauthRedirect", "android": "my-app:/oauthRedirect", "web": "my-app:/oauthRedirect",
        ],
        "start_mode": "redirect", "state_key_lifetime": 900, "required_attributes": ["first-name"],
        "blocked_domains": ["blocked.example"], "error_body": "auto",
    ]

    private static let fixed = [
        "/blaize/account": "account", "/blaize/register": "register", "/blaize/login": "login",
        "/blaize/logout": "logout", "/blaize/profile": "profile", "/blaize/schema/users": "schema",
        "/blaize/anonymous-session": "anonymous", "/zephr/public/sessions/v1/sessions": "sessions",
        "/zephr/public/sso/v1/status": "sso_status", "/oauth/apple": "start",
    ]

    func endpoint(method: String, path: String) -> String? {
        guard path.hasPrefix("/zephr/") else { return nil }
        let rest = String(path.dropFirst("/zephr".count))
        if let known = Self.fixed[rest] { return known }
        if rest.hasPrefix("/zephr/public/sessions/v1/sessions/") { return "sessions" }
        if rest.hasPrefix("/social/") { return "social" }
        if rest.hasSuffix("/callback") { return "callback" }
        let segments = rest.split(separator: "/")
        if segments.count == 3, segments[0] == "blaize" || segments[0] == "zephr", segments[1] == "oauth" {
            return "start"
        }
        return nil
    }

    func handle(_ call: Call) async throws -> Response {
        switch call.endpoint {
        case "start": start(call)
        case "social": social(call)
        case "callback": callback(call)
        case "register": ZephrRegistration(call: call).answer()
        default: ZephrAccount(call: call).answer()
        }
    }

    /// Redirects to the social provider, or with `sandbox_user` directly to the app.
    private func start(_ call: Call) -> Response {
        let slug = call.path.split(separator: "/").last.map(String.init) ?? ""
        let slugs = call.settings.json["slugs"]?.elements?.compactMap(\.text) ?? []
        guard slugs.contains(slug) else {
            return .text("<html><title>Not Found</title></html>", status: 404, type: "text/html")
        }
        let platform = call.queryPairs["client_type"] ?? "web"
        if call.queryPairs["sandbox_user"] != nil || call.queryPairs["sandbox_deny"] != nil {
            return finish(call, platform: platform, parameters: call.queryPairs)
        }
        var query = Pairs([("flow", platform), ("state", Random.token())])
        query.all += call.queryPairs.all.filter { $0.name.hasPrefix("sandbox_") }
        let location = call.baseURL + "/zephr/social/" + slug + "?" + query.encoded
        if call.settings.text("start_mode") == "json" { return .json(["location": .string(location)]) }
        return .found(location)
    }

    /// The social provider's consent page.
    private func social(_ call: Call) -> Response {
        let query = call.queryPairs
        let platform = query["flow"] ?? "web"
        if query["sandbox_user"] != nil || query["sandbox_deny"] != nil {
            return finish(call, platform: platform, parameters: query)
        }
        if call.method == .post, let form = call.form {
            let slug = call.path.split(separator: "/").last.map(String.init) ?? ""
            let prefix = platform == "ios" ? "/zephr/zephr/oauth/" : "/zephr/blaize/oauth/"
            let middle = platform == "web" ? "" : "/" + platform
            var back = Pairs()
            if form["decision"] == "allow" {
                back.add("code", "social-" + (form["user"] ?? ""))
            } else {
                back.add("error", "access_denied")
            }
            back.add("state", query["state"])
            return .found(call.baseURL + prefix + slug + middle + "/callback?" + back.encoded)
        }
        return Consent.page(call, clientID: "news.example.org", scope: "profile email")
    }

    /// Answers the browser after the social provider has redirected it to Zephr.
    ///
    /// Zephr redeems the code, and redirects the browser to the app.
    private func callback(_ call: Call) -> Response {
        var query = call.queryPairs
        query.all += call.form?.all ?? []
        let segments = call.path.split(separator: "/").map(String.init)
        let platform = segments.contains("ios") ? "ios" : segments.contains("android") ? "android" : "web"
        guard let code = query["code"], code.hasPrefix("social-") else {
            return finish(call, platform: platform, parameters: Pairs([("sandbox_deny", "1")]))
        }
        return finish(
            call, platform: platform, parameters: Pairs([("sandbox_user", String(code.dropFirst("social-".count)))]))
    }

    private func finish(_ call: Call, platform: String, parameters: Pairs) -> Response {
        guard let target = parameters["sandbox_redirect_uri"] ?? call.settings.json["redirects"]?[platform]?.text else {
            return .text("no redirect for this platform\n", status: 500)
        }
        return .found(outcome(call, parameters: parameters).added(to: target))
    }

    private func outcome(_ call: Call, parameters: Pairs) -> Pairs {
        let failure: (String) -> Pairs = { Pairs([("action", "login"), ("status", "failure"), ("message", $0)]) }
        if let fault = call.faults["error-callback"] { return failure(fault.value?.text ?? "something went wrong") }
        guard parameters["sandbox_deny"] == nil, let name = parameters["sandbox_user"] else {
            return failure("access denied")
        }
        let user = call.state.user(name)
        var kind = parameters["sandbox_scenario"] ?? user["zephr"] ?? "known"
        if kind == "partial", parameters["sandbox_scenario"] == nil,
            call.state.with({ $0.zephrAccounts.contains(name) })
        {
            kind = "known"
        }
        switch kind {
        case "failure": return failure("access denied")
        case "unknown-status": return Pairs([("action", "login"), ("status", "pending")])
        case "partial":
            let key = Random.token("sk-")
            let email = user["email"] ?? name + "@example.org"
            let record = ZephrStateKey(
                user: name, email: email, expiresAt: call.now + call.settings.seconds("state_key_lifetime"))
            call.state.with { $0.zephrStateKeys[key] = record }
            return Pairs([("action", "register"), ("status", "partial"), ("state_key", key), ("identifier", email)])
        default:
            // A user who is signed in at the site gets the existing session.
            if call.settings.flag("signed_in"), let known = held(by: name, call) {
                return Pairs([
                    ("action", "login"), ("status", "success"), ("tracking_id", known.1), ("session_id", known.0),
                ])
            }
            let session = Random.token("bs-")
            let tracking = Random.token("tr-", bytes: 12)
            let record = ZephrSession(
                user: name, email: user["email"] ?? name + "@example.org", trackingID: tracking,
                attributes: ["first-name": user.json["given_name"] ?? .null])
            if !call.faults.has("dead-session-callback") { call.state.with { $0.zephrSessions[session] = record } }
            return Pairs([
                ("action", "login"), ("status", "success"), ("tracking_id", tracking), ("session_id", session),
            ])
        }
    }

    private func held(by user: String, _ call: Call) -> (String, String)? {
        call.state.with { storage in
            storage.zephrSessions.filter { $0.value.user == user }.min { $0.key < $1.key }
                .map { ($0.key, $0.value.trackingID) }
        }
    }
}
