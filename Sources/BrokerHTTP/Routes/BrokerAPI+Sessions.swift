import Broker
import BrokerWire
import HTTPTypes

extension BrokerAPI {
    /// `POST /v1/sessions`: creates a session from the value that an app forwards, such as a callback URL or a code.
    @Sendable func forwardCode(_ call: Call) async throws(BrokerProblem) -> Answer {
        let input = try forwardCodeInput(call)
        let outcome = try await charge(call).forWrongTokens { () async throws(BrokerProblem) in
            try await useCases.forwardCode.forward(input)
        }
        switch outcome {
        case .signedIn(let signedIn): return created(signedIn, call)
        case .registrationRequired(let registration):
            return Answers.json(.accepted, RegistrationBody.bytes(registration), call)
        case .steppedUp(let steppedUp): return stillThere(steppedUp, call)
        }
    }

    /// Returns the 200 for a session that was stepped up.
    ///
    /// The cookie or bearer token remains the same.
    private func stillThere(_ steppedUp: SteppedUp, _ call: Call) -> Answer {
        RequestScope.concerns(steppedUp.session.handle)
        let lifetime = steppedUp.endsAtLatest.since(clock.now())
        return Answers.json(
            .ok, SessionBody.bytes(steppedUp.session), call,
            adding: steppedUp.transport == .cookie ? [cookies.session(steppedUp.token, lifetime: lifetime)] : [])
    }

    /// Returns the 201 for a new session, with its cookie or its token.
    func created(_ signedIn: SignedIn, _ call: Call) -> Answer {
        RequestScope.concerns(signedIn.session.handle)
        switch signedIn.transport {
        case .cookie:
            let lifetime = signedIn.endsAtLatest.since(clock.now())
            return Answers.json(
                .created, SessionBody.bytes(signedIn.session, pass: signedIn.pass), call,
                adding: [cookies.session(signedIn.token, lifetime: lifetime)]
                    + (signedIn.pass.map { [cookies.pass($0)] } ?? []))
        case .bearer:
            return Answers.json(
                .created,
                SessionBody.bytes(signedIn.session, sessionToken: signedIn.token, pass: signedIn.pass), call)
        }
    }

    private func forwardCodeInput(_ call: Call) throws(BrokerProblem) -> ForwardCodeInput {
        var body = try json(call)
        var input = ForwardCodeInput()
        input.callbackURL = body.text(
            "callback_url", length: 1...CallbackURL.maximumBytes)
        input.handoff = body.token("handoff", length: 43...43)
        input.provider = body.name("provider")
        input.client = body.name("client")
        input.code = body.opaque("code")
        input.idToken = body.text("id_token", length: 1...16_384, where: RequestText.isVisible).map { Secret($0) }
        input.redirectURI = body.text("redirect_uri", length: 3...2048, where: RequestText.isVisible)
        input.codeVerifier = body.text("code_verifier", length: 43...128, where: RequestText.isVerifier)
            .map { Secret($0) }
        input.state = body.opaque("state")
        input.nonce = body.opaque("nonce")
        input.scope = scopeList(&body)
        input.device = body.text("device", length: 1...64)
        input.tokens = body.importedTokens("tokens")
        let legacy = body.object("legacy") { legacy in
            LegacyToken(
                legacy.text("token", length: 1...LegacyCookie.maximumBytes, where: RequestText.isASCIIText)
                    .map { Secret($0) })
        }
        let token = body.token("login_token", length: 43...128)
        try body.finish()
        input.legacy = try legacy.map { legacy throws(BrokerProblem) in try legacyToken(legacy, input, call) }
        input.loginToken = try credentials(call).loginToken(body: token)
        input.presentedSession = try credentials(call).cookieOrBearer()
        input.charge = charge(call)
        input.evidence = try credentials(call).evidence()
        return input
    }

    /// Returns the legacy token of the body, or else of the old system's cookie.
    ///
    /// The cookie is read only for a body with `legacy` that lacks `token`, and only for a client that names the cookie.
    private func legacyToken(
        _ legacy: LegacyToken, _ input: ForwardCodeInput, _ call: Call
    ) throws(BrokerProblem) -> LegacyToken {
        guard legacy.token == nil, let name = useCases.legacyCookie(of: input.provider, input.client) else {
            return legacy
        }
        switch LegacyCookie.read(name, in: call.fields.cookies) {
        case .success(let value): return LegacyToken(value.map { Secret($0) }, way: .cookie)
        case .failure(let fault):
            throw BrokerProblem(.invalidRequest, with: .fields([FieldFault("/legacy", fault.code)]))
        }
    }

    /// `GET /v1/session`: this session; reading it does not slide the idle time.
    @Sendable func readSession(_ call: Call) async throws(BrokerProblem) -> Answer {
        let view = try useCases.resumeSession.view(of: try await credentials(call).open().session)
        return Answers.json(.ok, SessionBody.bytes(view), call)
    }

    /// `POST /v1/session/token`: the provider's access token, for clients that opted in.
    @Sendable func handOutToken(_ call: Call) async throws(BrokerProblem) -> Answer {
        let access = try await useCases.handOutToken.handOut(
            from: try await credentials(call).open(demanding: .proof, admitting: .exceptChildren).session)
        var writer = JSONWriter(capacity: 1024)
        writer.object { writer in
            writer.member("access_token", access.token.reveal())
            writer.member("token_type", "Bearer")
            writer.name("expires_at")
            if let end = access.expiresAt { writer.value(.string(end.rfc3339)) } else { writer.value(.null) }
            writer.name("scope")
            writer.array { writer in for word in access.scope { writer.value(.string(word)) } }
        }
        return Answers.json(.ok, writer.bytes, call)
    }

    /// `POST /v1/session/pass`: a pass in exchange for a proof, for a bound session.
    @Sendable func grantPass(_ call: Call) async throws(BrokerProblem) -> Answer {
        let session = try await credentials(call).open(demanding: .proof).session
        let pass = try useCases.grantPass.grant(to: session)
        return Answers.json(
            .ok, PassBody.bytes(pass), call, adding: pass.transport == .cookie ? [cookies.pass(pass)] : [])
    }

    /// `PUT /v1/session/presence-key`: registers the device's key for presence proofs.
    @Sendable func registerPresenceKey(_ call: Call) async throws(BrokerProblem) -> Answer {
        let session = try await credentials(call).open(
            demanding: .proof, admitting: SessionCredentials.Admission(check: RegisterPresenceKey.admits)
        ).session
        let view = try await useCases.registerPresenceKey.register(credentials(call).presence(), for: session)
        return Answers.json(.ok, SessionBody.bytes(view), call)
    }

    /// `POST /v1/session/children`: a child session, for example for a widget, a watch or an extension.
    @Sendable func makeChild(_ call: Call) async throws(BrokerProblem) -> Answer {
        // The child may outlive a pass, so a pass is not enough.
        let parent = try await credentials(call).open(demanding: .proof, admitting: .exceptChildren).session
        let child = try await useCases.makeChild.make(try childOrder(call), of: parent, charge: charge(call))
        return created(child, call)
    }

    private func childOrder(_ call: Call) throws(BrokerProblem) -> ChildOrder {
        var body = try json(call)
        let kind: ChildKind? = body.name("kind", required: true)
        let name = body.text("name", required: true, length: 1...32, where: RequestText.isPlaceName)
        let device = body.text("device", length: 1...64)
        let jkt = body.text("jkt", length: 43...43, where: RequestText.isBase64URL)
        let thumbprint = jkt.flatMap { Base64URL.decode($0) }.flatMap(Digest.init)
        if jkt != nil, thumbprint == nil { body.fault("jkt", .malformed) }
        try body.finish()
        guard let kind, let name else { throw BrokerProblem(.invalidRequest) }
        return ChildOrder(kind: kind, name: name, device: device, thumbprint: thumbprint)
    }

    /// Returns the fields that clear cookies after a log-out, according to the first case that matches.
    ///
    /// - The request has the session cookie: this cookie and the pass are cleared.
    /// - The request has `Authorization`: all cookies remain, because the token may belong to a child.
    /// - The request has the cookie of a web child: only this cookie is cleared.
    /// - The request has none of them: the session cookie and the pass are cleared.
    private func cleared(_ call: Call) -> [HTTPField] {
        guard !rules.hasSessionCookie(call.fields) else { return cookies.cleared(rules.hasPassCookie(call.fields)) }
        guard call.fields.authorization.isEmpty else { return [] }
        if rules.hasWebCookie(call.fields) { return [cookies.clearedWeb] }
        return cookies.cleared(rules.hasPassCookie(call.fields))
    }

    /// `DELETE /v1/session`: ends the session, on this replica at once.
    ///
    /// Answers 204, even if there was no session. With `logout_url=true`, answers 200 with the address of the provider's
    /// log-out page, or null.
    @Sendable func logOut(_ call: Call) async throws(BrokerProblem) -> Answer {
        var query = try RequestQuery(parsing: call.query)
        let wanted = query.text("logout_url", maximum: 8)
        if let wanted, wanted != "true", wanted != "false" { query.fault("logout_url", .malformed) }
        try query.finish()
        if wanted == "true" {
            var page: Secret?
            if let token = try credentials(call).token()?.secret {
                page = try await useCases.endSession.logOutInBrowser(token) { () throws(BrokerProblem) in
                    try credentials(call).evidence()
                }
            }
            var writer = JSONWriter(capacity: 512)
            writer.object { $0.member("logout_url", page?.reveal()) }
            return Answers.json(.ok, writer.bytes, call, adding: cleared(call))
        }
        if let token = try credentials(call).token()?.secret { try await useCases.endSession.logOut(token) }
        return Answers.empty(.noContent, call, adding: cleared(call))
    }

    /// `GET /v1/sessions`: the sessions of the user's devices.
    @Sendable func listSessions(_ call: Call) async throws(BrokerProblem) -> Answer {
        var query = try RequestQuery(parsing: call.query)
        let cursor = query.text("cursor", maximum: 256)
        try query.finish()
        let owner = try await credentials(call).open(admitting: .exceptChildren).session
        let page = try await useCases.listSessions.list(for: owner, cursor: cursor)
        return Answers.json(
            .ok, SessionListBody.bytes(page.items.map { ($0.session, $0.current) }, nextCursor: page.nextCursor), call)
    }

    /// `DELETE /v1/sessions/{handle}`: ends one of the user's own sessions.
    @Sendable func endSession(_ call: Call) async throws(BrokerProblem) -> Answer {
        let owner = try await credentials(call).open(admitting: .exceptChildren).session
        guard let text = call.parameters.first, let handle = SessionHandle(String(text)) else {
            throw BrokerProblem(.notFound)
        }
        try await useCases.endSession.end(handle: handle, ownedBy: owner)
        return Answers.empty(.noContent, call, adding: handle == owner.view.handle ? cleared(call) : [])
    }

    /// `DELETE /v1/sessions?except=current`: ends all of the user's other sessions.
    @Sendable func endOtherSessions(_ call: Call) async throws(BrokerProblem) -> Answer {
        var query = try RequestQuery(parsing: call.query)
        let except = query.text("except", maximum: 16)
        if except == nil { query.fault("except", .required) }
        if let except, except != "current" { query.fault("except", .malformed) }
        try query.finish()
        try await useCases.endSession.endOthers(
            of: try await credentials(call).open(admitting: .exceptChildren).session)
        return Answers.empty(.noContent, call)
    }
}
