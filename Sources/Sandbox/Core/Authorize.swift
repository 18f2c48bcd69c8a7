import HTTPTypes
import Hummingbird

/// The authorization endpoint: the consent page, automatic answers for tests, and the callback.
struct Authorize {
    let server: any AuthorizationServer
    let call: Call

    func answer() async throws -> Response {
        let visible = call.queryPairs
        var parameters = visible
        if let fault = FAPI2Server(call: call).fault(ofOpening: visible) { return refused(fault) }
        if let reference = visible["request_uri"] {
            guard let pushed = takePushed(reference, client: visible["client_id"]) else {
                return refused("The request_uri is unknown, used or expired.")
            }
            parameters = pushed
            parameters.all += visible.all.filter { $0.name.hasPrefix("sandbox_") }
        } else if call.settings.flag("require_par") {
            return refused("Pushed authorization requests are required.")
        }
        if let name = parameters.repeatedName(but: ["resource"]) {
            return refused("The parameter \(name) comes twice.")
        }
        guard let clientID = parameters["client_id"], !clientID.isEmpty else {
            return refused("client_id is missing.")
        }
        let client = call.state.client(clientID, at: server.name)
        if client == nil, call.settings.text("unknown_clients") != "public" { return refused("Unknown client.") }
        guard let redirectURI = parameters["redirect_uri"] ?? client?.redirectURIs.first else {
            return refused("redirect_uri is missing.")
        }
        if let client, !client.redirectURIs.isEmpty, !client.redirectURIs.contains(redirectURI) {
            return refused("This redirect_uri is not registered.")
        }
        if let failure = check(parameters, client: client) {
            return deliver(error: failure.error, description: failure.description, parameters, to: redirectURI)
        }
        return try decide(parameters, clientID: clientID, redirectURI: redirectURI)
    }

    private func check(_ parameters: Pairs, client: SandboxClient?) -> OAuthFailure? {
        do throws(OAuthFailure) { try RequestedTarget(parameters).checkForm() } catch { return error }
        let type = parameters["response_type"]
        guard type == "code" || type == nil && call.settings.flag("response_type_optional") else {
            return OAuthFailure(error: "unsupported_response_type", description: "only code is known")
        }
        if let challenge = parameters["code_challenge"] {
            let method = parameters["code_challenge_method"]
            guard method == "S256" || method == nil && call.settings.flag("challenge_method_optional") else {
                return .request("code_challenge_method has to be S256")
            }
            guard challenge.utf8.count == 43, Base64URL.decode(challenge) != nil else {
                return .request("code_challenge is no SHA-256 in base64url")
            }
        } else if call.settings.flag("require_pkce") || client?.json["require_pkce"]?.flag == true {
            return .request("code_challenge is required")
        }
        if let mode = parameters["response_mode"], mode != "query", mode != "form_post" {
            return .request("unknown response_mode")
        }
        return nil
    }

    private func decide(_ parameters: Pairs, clientID: String, redirectURI: String) throws -> Response {
        let posted = call.method == .post ? call.form : nil
        let refusedByTest = parameters["sandbox_deny"] == "1" || posted?["decision"] == "deny"
        if refusedByTest {
            return deliver(
                error: "access_denied", description: "The user refused.", parameters, to: redirectURI)
        }
        if let fault = call.faults["error-callback"] {
            return deliver(
                error: fault.value?.text ?? "server_error", description: fault.body ?? "It did not work.",
                parameters, to: redirectURI)
        }
        if let failure = refusedStepUp(parameters) {
            return deliver(error: failure.error, description: failure.description, parameters, to: redirectURI)
        }
        let chosen = parameters["sandbox_user"] ?? (posted?["decision"] == "allow" ? posted?["user"] : nil)
        guard let user = chosen else { return known(parameters, clientID: clientID, redirectURI: redirectURI) }
        if user == "denied" {
            return deliver(
                error: "access_denied", description: "The user refused.", parameters, to: redirectURI)
        }
        let browser = BrowserSession(server: server, call: call)
        let authenticatedAt = call.now - (parameters["sandbox_auth_age"].flatMap(Double.init) ?? 0)
        let authenticationClass = Self.classes(parameters).first ?? "pwd"
        let signedIn = browser.signedIn(
            user, at: authenticatedAt, class: authenticationClass, client: clientID, sid: parameters["sandbox_sid"])
        var response = issue(
            parameters, clientID: clientID, redirectURI: redirectURI, user: user,
            sid: signedIn?.0.sid ?? parameters["sandbox_sid"] ?? Random.token("sid-", bytes: 12),
            authenticatedAt: authenticatedAt, class: authenticationClass)
        if let signedIn { response.headers.append("Set-Cookie", signedIn.cookie) }
        return response
    }

    /// The `acr` values that the request asks for, in order of preference.
    private static func classes(_ parameters: Pairs) -> [String] {
        parameters["acr_values"]?.split(separator: " ").map(String.init) ?? []
    }

    /// Returns the error of a provider that cannot fulfil a request for a stronger or new sign-in.
    private func refusedStepUp(_ parameters: Pairs) -> OAuthFailure? {
        guard call.settings.text("step_up") == "refuses" else { return nil }
        if !Self.classes(parameters).isEmpty {
            return OAuthFailure(
                error: "unmet_authentication_requirements", description: "There is one way to sign in here.")
        }
        guard parameters["max_age"] != nil else { return nil }
        return OAuthFailure(error: "login_required", description: "Nobody is asked to sign in again here.")
    }

    /// Returns the reason why the browser's session lacks the requested age or `acr`.
    ///
    /// Returns nil in two cases: the session has both; or the provider ignores such requests.
    private func lacking(_ session: SignOn, _ parameters: Pairs) -> String? {
        guard call.settings.text("step_up") != "ignores" else { return nil }
        if let age = parameters["max_age"].flatMap(Double.init), call.now - session.authenticatedAt > age {
            return "That sign-in is too old."
        }
        let asked = Self.classes(parameters)
        return asked.isEmpty || asked.contains(session.authenticationClass) ? nil : "That sign-in is of another class."
    }

    /// Answers a request that names no user (OpenID Connect Core 3.1.2.3): with a code for the browser's session, or with the
    /// consent page.
    ///
    /// With `prompt=none`, an error replaces the consent page.
    private func known(_ parameters: Pairs, clientID: String, redirectURI: String) -> Response {
        let prompts = Set((parameters["prompt"] ?? "").split(separator: " ").map(String.init))
        func asking(_ error: String, _ description: String) -> Response {
            prompts.contains("none")
                ? deliver(error: error, description: description, parameters, to: redirectURI)
                : Consent.page(call, clientID: clientID, scope: parameters["scope"] ?? "")
        }
        guard let session = BrowserSession(server: server, call: call).signOn else {
            return asking("login_required", "Nobody is signed in.")
        }
        if let reason = lacking(session, parameters) { return asking("login_required", reason) }
        guard session.clients.contains(clientID) else { return asking("consent_required", "Nobody was asked yet.") }
        guard prompts.isDisjoint(with: ["login", "consent", "select_account"]) else {
            return asking("interaction_required", "The user has to be asked.")
        }
        return issue(
            parameters, clientID: clientID, redirectURI: redirectURI, user: session.user, sid: session.sid,
            authenticatedAt: session.authenticatedAt, class: session.authenticationClass)
    }

    private func issue(
        _ parameters: Pairs, clientID: String, redirectURI: String, user: String, sid: String, authenticatedAt: Double,
        class authenticationClass: String
    ) -> Response {
        let now = call.now
        let user = call.faults["other-user-callback"].map { $0.value?.text ?? "ben" } ?? user
        var extras: [String: String] = [:]
        for pair in parameters.all where !pair.name.hasPrefix("sandbox_") { extras[pair.name] = pair.value }
        let grant = Grant(
            id: Random.token("g-", bytes: 12), provider: server.name, clientID: clientID, user: user,
            scope: parameters["sandbox_scope"] ?? parameters["scope"] ?? "", nonce: parameters["nonce"],
            authenticatedAt: authenticatedAt, authenticationClass: authenticationClass, sid: sid, extras: extras,
            resources: parameters.values("resource"))
        let code = Random.token("c-")
        let issued = IssuedCode(
            grant: grant.id, redirectURI: parameters["redirect_uri"], challenge: parameters["code_challenge"],
            expiresAt: now + call.settings.seconds("code_lifetime"))
        call.state.with { storage in
            storage.grants[grant.id] = grant
            storage.codes[code] = issued
        }
        var back = Pairs()
        back.add("code", code)
        if call.faults.has("duplicate-code-callback") { back.add("code", Random.token("c-")) }
        addState(parameters, to: &back)
        if call.settings.flag("iss_parameter"), !call.faults.has("no-iss-callback") {
            let right = server.callbackIssuer(call, grant: grant)
            back.add("iss", call.faults.has("wrong-iss-callback") ? right + "/evil" : right)
        }
        back.all += server.callbackExtras(call, grant: grant, user: call.state.user(user)).all
        if let more = call.faults["extra-callback"]?.value?.members {
            for member in more { back.add(member.name, member.value.text) }
        }
        return send(back, parameters, to: redirectURI)
    }

    private func addState(_ parameters: Pairs, to back: inout Pairs) {
        guard !call.faults.has("no-state-callback") else { return }
        let state = parameters["state"]
        back.add("state", call.faults.has("wrong-state-callback") ? "not-" + (state ?? "") : state)
    }

    private func deliver(error: String, description: String, _ parameters: Pairs, to redirectURI: String) -> Response {
        var back = server.callbackError(call, error: error, description: description)
        addState(parameters, to: &back)
        if call.settings.flag("iss_parameter"), !call.faults.has("no-iss-callback") {
            let right = server.callbackIssuer(call, grant: nil)
            back.add("iss", call.faults.has("wrong-iss-callback") ? right + "/evil" : right)
        }
        return send(back, parameters, to: redirectURI)
    }

    private func send(_ back: Pairs, _ parameters: Pairs, to redirectURI: String) -> Response {
        guard parameters["response_mode"] == "form_post" else { return .found(back.added(to: redirectURI)) }
        return FormPost.answer(back, to: redirectURI, asJSON: call.acceptsJSON)
    }

    private func takePushed(_ reference: String, client: String?) -> Pairs? {
        let now = call.now
        let keep =
            call.method == .get && call.queryPairs["sandbox_user"] == nil && call.queryPairs["sandbox_deny"] == nil
        return call.state.with { storage in
            guard let pushed = storage.pushed[reference], pushed.expiresAt > now, pushed.clientID == client else {
                return nil
            }
            // If `keep` is set, keep the pushed request, because the consent page posts to the same URL.
            if !keep { storage.pushed[reference] = nil }
            return pushed.parameters
        }
    }

    private func refused(_ text: String) -> Response {
        .page("Not possible", "<p>\(text.htmlEscaped)</p>", status: 400)
    }
}
