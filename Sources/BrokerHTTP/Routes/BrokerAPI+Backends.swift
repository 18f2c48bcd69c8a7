import Broker
import BrokerWire
import HTTPTypes

extension BrokerAPI {
    /// `GET /v1/forward-auth`: decides from the session whether a proxy may let a request pass.
    ///
    /// Header fields about the original request are ignored (SEC-83 … SEC-85). The exception is the proof of a bound session.
    /// If the backend has `original_request`, the proof is checked against the forwarded method and address. Any failure
    /// denies access (SEC-87).
    @Sendable func forwardAuth(_ call: Call) async throws(BrokerProblem) -> Answer {
        let backend = try backend(call, for: .forwardAuth)
        let demand = try demand(in: call.query, over: backend.configuration.require)
        guard let token = try forwardedSession(call, backend) else { throw BrokerProblem(.sessionRequired) }
        // A wrong token is not charged here. The backend is authenticated, and the guesses of all its users would count for
        // its one address.
        var session = try await useCases.resumeSession.use(
            token.secret, { () throws(BrokerProblem) in try forwardedEvidence(call, backend.configuration) }
        ) { session throws(BrokerProblem) in
            // The backend may have got the token by redeeming a ticket, so no cookie rule applies to the token.
            if token.isFromApp { try token.token.checkCarries(session) }
            try backend.configuration.admits(session)
        }
        // Refuse a gateway that cannot forward a presence proof, before the user is asked to sign in again.
        let presence = demand?.presence == true ? try forwardedPresence(call, backend.configuration) : nil
        if let demand = demand?.ofSignIn {
            session = try await useCases.signInCheck.require(demand, of: session)
        }
        var shown: JudgedPresence?
        if let presence { shown = try await useCases.presenceCheck.judge(presence, of: session) }
        var fields = Answers.fields(call.requestID)
        try IdentityFields.append(session, to: &fields)
        if backend.configuration.forwardAccessToken {
            let access = session.hasTokens ? try await useCases.refreshTokens.accessToken(for: session) : nil
            // The credential may be a Zephr session instead of an access token. It must not leave the broker, because its
            // holder can act as the user at Zephr.
            let value = access.map { $0.credential == .bearer ? $0.token.reveal() : "" } ?? ""
            guard HTTPField.isValidValue(value) else { throw BrokerProblem(.providerError) }
            fields.append(HTTPField(name: .authToken, value: value))
        }
        // As the last step, mark the presence proof as used. If an earlier check refuses the request, the proof is still unused,
        // and the app may send it again.
        if let shown { try await shown.take() }
        return Answer(.ok, consume fields)
    }

    /// Returns the demand on the sign-in, joined from the backend's settings and the query of the proxy's request.
    ///
    /// The query can only make the demand stricter, so every backend may send one. If the query is unreadable, the answer is
    /// 403, because nginx would treat a 400 as an error.
    private func demand(
        in query: Substring?, over configured: StepUpDemand?
    ) throws(BrokerProblem) -> StepUpDemand? {
        guard let query, !query.isEmpty else { return configured }
        do throws(BrokerProblem) {
            var reader = try RequestQuery(parsing: query)
            var demand = StepUpDemand()
            if let text = reader.text("acr", maximum: StepUpDemand.mostClasses * (StepUpDemand.longestClass + 1)) {
                demand.contextClasses = text.split(separator: " ").map(String.init)
                if !StepUpDemand.areClasses(demand.contextClasses) { reader.fault("acr", .malformed) }
            }
            if let text = reader.text("max_age", maximum: 10) {
                demand.maximumAge = Int64(text)
                let isNumber = text.utf8.allSatisfy { (0x30...0x39).contains($0) }
                if !isNumber || !(60...StepUpDemand.longestAge).contains(demand.maximumAge ?? 0) {
                    reader.fault("max_age", .malformed)
                }
            }
            if let text = reader.text("presence", maximum: 1) {
                demand.presence = text == "1"
                if !demand.presence { reader.fault("presence", .malformed) }
            }
            try reader.finish()
            return configured.map { $0.joined(with: demand) } ?? demand
        } catch {
            throw BrokerProblem(
                .backendNotAllowed, detail: "The query of this request is not one that forward-auth reads.",
                privateDetail: "forward-auth takes `acr`, `max_age` (60 s at least) and `presence=1`, once each")
        }
    }

    /// A session token, and whether the token came from the app or browser (true) or from the backend itself (false).
    private struct ForwardedToken {
        let token: PresentedToken
        let isFromApp: Bool
        var secret: Secret { token.secret }
    }

    private func forwardedSession(_ call: Call, _ backend: ProvenBackend) throws(BrokerProblem) -> ForwardedToken? {
        func token(_ secret: Secret, isWeb: Bool = false, isFromApp: Bool = true) -> ForwardedToken {
            ForwardedToken(token: PresentedToken(secret: secret, isWebCookie: isWeb), isFromApp: isFromApp)
        }
        let credentials = credentials(call)
        if let app = try credentials.cookie(cookies.sessionName) { return token(app) }
        if let web = try credentials.cookie(cookies.webName) { return token(web, isWeb: true) }
        guard call.fields.sessions.count <= 1 else {
            throw BrokerProblem(.invalidRequest, with: .fields([FieldFault("X-Coatcheck-Session", .duplicate)]))
        }
        if let header = call.fields.sessions.first { return token(Secret(header), isFromApp: false) }
        guard !backend.usedAuthorization, let value = call.fields.authorization.first,
            case .bearer(let bearer) = Authorization(value)
        else { return nil }
        return token(bearer)
    }

    /// Returns the evidence that the app sent to the proxy: its pass, and its proof if the proxy forwards method and address.
    private func forwardedEvidence(
        _ call: Call, _ backend: BackendConfiguration
    ) throws(BrokerProblem) -> PresentedEvidence {
        let nobodys = ProofTarget(method: "", address: .foreign(nil))
        let target = try originalRequest(call, backend)
        return PresentedEvidence(
            proofs: target == nil ? [] : call.fields.proofs, passes: try credentials(call).passes(),
            target: target ?? nobodys,
            charge: backendProofCharge)
    }

    /// Returns the original request, if the backend has `original_request` and the proxy's fields are complete.
    private func originalRequest(
        _ call: Call, _ backend: BackendConfiguration
    ) throws(BrokerProblem) -> ProofTarget? {
        guard backend.originalRequest else { return nil }
        let own = useCases.proofOrigins
        return try OriginalRequest.target(in: call.request.headerFields) { address in
            own.contains(address) || backend.origins.contains(address)
        }
    }

    /// Returns the presence proof that the app sent to the proxy.
    ///
    /// Throws `backend_not_allowed` unless the proxy forwards the original request. Otherwise, the app would prompt its user
    /// for a proof that cannot be checked.
    private func forwardedPresence(
        _ call: Call, _ backend: BackendConfiguration
    ) throws(BrokerProblem) -> PresentedEvidence {
        guard let target = try originalRequest(call, backend) else {
            throw BrokerProblem(
                .backendNotAllowed, detail: "This backend cannot ask for the user's presence.",
                privateDetail: "`presence` needs `original_request: true` and a proxy that says method and URL")
        }
        return PresentedEvidence(proofs: credentials(call).presenceProofs(), target: target, charge: backendProofCharge)
    }

    /// Returns the evidence of the app that a backend passes on in its form.
    private func evidence(in form: inout RequestForm) -> PresentedEvidence {
        let pass = form.optional("pass", maximum: 64)
        let proof = form.optional("dpop", maximum: DPoPProof.maximumBytes)
        let method = form.optional("htm", maximum: 32)
        let address = form.optional("htu", maximum: 4096)
        if proof != nil, method == nil { form.fault("htm", .required) }
        if proof != nil, address == nil { form.fault("htu", .required) }
        return PresentedEvidence(
            proofs: proof.map { [$0] } ?? [], passes: pass.map { [Secret($0)] } ?? [],
            target: ProofTarget(method: method ?? "", address: .foreign(address.flatMap { ProofAddress($0) })),
            charge: backendProofCharge)
    }

    /// `POST /v1/introspect` (RFC 7662); it slides the idle time only for backends with `slides`.
    @Sendable func introspect(_ call: Call) async throws(BrokerProblem) -> Answer {
        var form = try form(call, for: Self.introspected)
        let backend = try backend(call, for: .introspect, in: &form)
        let token = form.visible("token", required: true, maximum: 4096)
        let evidence = evidence(in: &form)
        try form.finish(ignoringUnknown: true)
        guard let token else { throw BrokerProblem(.invalidRequest) }
        let session: LiveSession
        do throws(BrokerProblem) {
            session = try await useCases.resumeSession.present(
                Secret(token), { evidence }, backend.configuration.demand, admits: backend.configuration.admits
            ).session
        } catch { return try inactive(error, call) }
        if backend.configuration.slides { useCases.resumeSession.slide(session) }
        return Answers.json(.ok, introspection(of: session.view), call)
    }

    /// The fields of an introspection request.
    ///
    /// No field may occur more than once. Fields with other names are ignored (RFC 6749 section 3.2).
    private static let introspected = FormNames(
        exact: ["token", "pass", "dpop", "htm", "htu", "client_id", "client_secret"], othersRepeat: false)

    /// Returns the answer to an introspection that failed with `problem`; rethrows all problems that do not concern the
    /// session.
    ///
    /// If evidence is missing or wrong, the answer contains the problem's code, because the session has not ended.
    private func inactive(_ problem: BrokerProblem, _ call: Call) throws(BrokerProblem) -> Answer {
        var writer = JSONWriter(capacity: 96)
        switch problem.code {
        case .sessionRequired, .sessionEnded, .backendNotAllowed, .clientNotAllowed:
            writer.object { $0.member("active", false) }
        case .proofRequired, .useDPoPNonce, .proofInvalid:
            writer.object { writer in
                writer.member("active", false)
                writer.member("code", problem.code.rawValue)
                if let reason = problem.proof?.reason { writer.member("reason", reason) }
            }
            return Answers.json(
                .ok, writer.bytes, call, adding: [HTTPField(name: .dpopNonce, value: useCases.proofNonce())])
        default: throw problem
        }
        return Answers.json(.ok, writer.bytes, call)
    }

    private func introspection(of session: SessionView) -> [UInt8] {
        var writer = JSONWriter(capacity: 320)
        writer.object { writer in
            writer.member("active", true)
            writer.member("sub", session.subject)
            let issuer = useCases.profiles.first { $0.name == session.provider }?.issuer
            writer.member("iss", issuer ?? session.provider.text)
            writer.member("client_id", "\(session.provider.text)/\(session.client.text)")
            writer.member("scope", session.scope.joined(separator: " "))
            writer.member("exp", min(session.idleExpiresAt, session.expiresAt).seconds)
            writer.member("iat", session.createdAt.seconds)
            writer.member("sid", session.handle.text)
            if let reached = session.signIn.contextClass { writer.member("acr", reached) }
            if let at = session.signIn.authenticatedAt { writer.member("auth_time", at) }
            if let child = session.child {
                writer.member("kind", child.kind.text)
                writer.member("parent", child.parentHandle.text)
            }
            if let binding = session.binding {
                writer.member("token_type", "DPoP")
                writer.name("cnf")
                writer.object { $0.member("jkt", binding.jkt) }
            }
        }
        return writer.bytes
    }

    /// `POST /v1/token` (RFC 8693): the provider's access token for a session.
    ///
    /// Unknown fields are refused. Otherwise, a request with a misspelt target would get the session's own token (decision
    /// 9).
    @Sendable func exchangeToken(_ call: Call) async throws(BrokerProblem) -> Answer {
        var form = try RequestForm(parsing: call.body, repeatable: AskedTarget.repeatable)
        let backend = try backend(call, for: .token, in: &form)
        let grant = form.visible("grant_type", required: true, maximum: 128)
        if let grant, grant != Self.exchangeGrant {
            return oauthRefusal("unsupported_grant_type", "Only token exchange is offered here.", call)
        }
        let subject = form.visible("subject_token", required: true, maximum: 4096)
        form.expect("subject_token_type", Self.accessTokenType, required: true)
        form.expect("requested_token_type", Self.accessTokenType, required: false)
        let evidence = evidence(in: &form)
        let target = proofTarget(in: &form)
        let asked = AskedTarget(&form)
        try form.finish()
        guard let subject else { throw BrokerProblem(.invalidRequest) }
        let listed = asked.among(backend.configuration.tokens)
        guard asked.isEmpty || listed != nil else {
            return oauthRefusal("invalid_target", "This backend gets no tokens for that API.", call)
        }
        var isTarget = true
        var session: LiveSession
        do throws(BrokerProblem) {
            session = try await useCases.resumeSession.use(Secret(subject), { evidence }, backend.configuration.demand)
            {
                session throws(BrokerProblem) in
                isTarget = backend.configuration.isNamed(by: session)
                try backend.configuration.admits(session)
            }
        } catch {
            guard isTarget else {
                return oauthRefusal("invalid_target", "This backend gets no tokens for children of this kind.", call)
            }
            throw error
        }
        if let demand = backend.configuration.require {
            session = try await useCases.signInCheck.require(demand, of: session)
        }
        let access: AccessToken?
        do throws(BrokerProblem) { access = try await accessToken(of: session, at: listed) } catch {
            // `invalid_grant` would be wrong here, because the session is live and a new sign-in would not help.
            guard listed != nil, error.code == .notRefreshable else { throw error }
            return oauthRefusal("invalid_target", "The session can get no tokens for another API.", call)
        }
        guard let access, access.credential == .bearer || access.credential == .dpop else {
            return oauthRefusal("invalid_target", "The session has no access token.", call)
        }
        var proof: String?
        if access.credential == .dpop {
            guard let target else {
                return oauthRefusal(
                    "invalid_target", "The access token needs a proof: say `dpop_htm` and `dpop_htu`.", call)
            }
            proof = try await useCases.proveForBackend.proof(of: access, for: target, session: session)
        }
        return Answers.json(.ok, exchangeBody(access, proof: proof), call)
    }

    /// Returns the body of RFC 8693 section 2.2.1, with the DPoP proof for the backend's call if the backend asked for one.
    private func exchangeBody(_ access: AccessToken, proof: String?) -> [UInt8] {
        var writer = JSONWriter(capacity: 1024)
        writer.object { writer in
            writer.member("access_token", access.token.reveal())
            writer.member("issued_token_type", Self.accessTokenType)
            writer.member("token_type", proof == nil ? "Bearer" : "DPoP")
            if let proof { writer.member("dpop_proof", proof) }
            if let expiresAt = access.expiresAt {
                writer.member("expires_in", max(expiresAt.since(clock.now()).wholeSeconds, 0))
            }
            if !access.scope.isEmpty { writer.member("scope", access.scope.joined(separator: " ")) }
        }
        return writer.bytes
    }

    /// Returns the session's own access token, or its target token for another API; nil if there is none.
    private func accessToken(
        of session: LiveSession, at target: TokenTarget?
    ) async throws(BrokerProblem) -> AccessToken? {
        guard session.hasTokens else { return nil }
        guard let target else { return try await useCases.refreshTokens.accessToken(for: session) }
        let kind = useCases.profiles.first { $0.name == session.facts.provider }?.kind
        // Providers of other kinds issue tokens only for their own API.
        guard kind == .oidc || kind == .oauth2 else { return nil }
        return try await useCases.fetchTargetToken.accessToken(for: session, at: target)
    }

    /// Reads the method and address for which a backend wants a proof by the broker's key; nil if the backend requests no
    /// proof.
    private func proofTarget(in form: inout RequestForm) -> ProveForBackend.Target? {
        let address = form.visible("dpop_htu", required: false, maximum: 4096)
        let method = form.visible("dpop_htm", required: address != nil, maximum: 32)
        let nonce = form.visible("dpop_nonce", required: false, maximum: 512)
        if method != nil, address == nil { form.fault("dpop_htu", .required) }
        guard let method, let address else { return nil }
        if HTTPRequest.Method(method) == nil { form.fault("dpop_htm", .malformed) }
        // Plain http is accepted for loopback, for tests. The address in a proof has no query or fragment (RFC 9449 section
        // 4.2).
        let parsed = ProofAddress(address)
        if parsed == nil || address.contains(where: { $0 == "?" || $0 == "#" })
            || !(address.lowercased().hasPrefix("https:") || parsed?.isLoopback == true)
        {
            form.fault("dpop_htu", .malformed)
        }
        if let nonce, !ProofNonces.isNonce(nonce) { form.fault("dpop_nonce", .malformed) }
        return ProveForBackend.Target(method: method, address: address, nonce: nonce)
    }

    private static let exchangeGrant = "urn:ietf:params:oauth:grant-type:token-exchange"
    private static let accessTokenType = "urn:ietf:params:oauth:token-type:access_token"

    private func oauthRefusal(_ error: String, _ detail: String, _ call: Call) -> Answer {
        Answers.json(.badRequest, OAuthErrorBody.bytes(error, code: .invalidRequest, detail: detail), call)
    }
}
