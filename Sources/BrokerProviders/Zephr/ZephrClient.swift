package import Broker

/// A Zephr site (flow E).
///
/// Zephr redeems the social provider's code itself. The broker verifies Zephr's session and creates its own.
package struct ZephrClient: PartialRegistering {
    package let profile: ProviderProfile
    let own: ZephrSettings
    let base: EndpointURL
    private let subjectPointer: String
    let caller: ProviderCaller
    let clock: BrokerClock
    let clockSource: ProviderTime
    private let schema: CachedFetch<[RegistrationField]>

    init(_ settings: ProviderSettings, _ own: ZephrSettings, environment: ProviderEnvironment) throws {
        try SettingsCheck.run(settings)
        guard let base = own.baseURL, base.query == nil else {
            throw CatalogueFailure("providers.\(settings.name): base_url is not an https URL (http is for loopback)")
        }
        guard !own.socialProviders.isEmpty else {
            throw CatalogueFailure("providers.\(settings.name): social_providers is empty")
        }
        guard !own.statusMap.keys.contains(where: { !(400..<500).contains($0) }) else {
            throw CatalogueFailure("providers.\(settings.name): status_map is for 400 to 499")
        }
        profile = settings.profile
        self.own = own
        self.base = base
        subjectPointer = settings.clients.lazy.compactMap(\.wire.identity.subject).first ?? "/identifiers/email_address"
        let caller = environment.caller(settings)
        self.caller = caller
        clock = environment.clock
        clockSource = ProviderTime(base, settings, environment.http)
        let source = ZephrSchema(own: own, base: base, caller: caller, clock: environment.clock)
        schema = CachedFetch(clock: environment.clock) { await source.fetch() }
    }

    package func startAuthorization(
        _ request: AuthorizationRequest, by deadline: Duration
    ) async throws(ProviderFailure) -> AuthorizationStart {
        let platform = profile.client(request.client)?.platform ?? "web"
        guard let url = ZephrWire.startURL(own, base: base, platform: platform, request) else {
            throw .unusable(detail: "Zephr: not a configured social provider")
        }
        let target = own.start == .redirect ? url.text : try await location(of: url, by: deadline)
        return AuthorizationStart(url: Secret(target), issuer: IssuerExpectation(issuer: nil, demanded: false))
    }

    /// Returns the address that the start URL leads to, from its `Location` or the `location` of a JSON answer (`start:
    /// fetch`).
    private func location(of url: EndpointURL, by deadline: Duration) async throws(ProviderFailure) -> String {
        let answer = try await caller.send(.get(url), by: deadline)
        let isRedirect = (300..<400).contains(answer.status)
        if !isRedirect { try answer.requireUsable(at: clock.now()) }
        let target = isRedirect ? answer.header("Location") : answer.object?["location"]?.string
        guard isRedirect || answer.isSuccess, let target, EndpointURL(target) != nil else {
            throw .unusable(detail: "Zephr start: \(answer.summary), no location")
        }
        return target
    }

    package func account(of session: Secret, by deadline: Duration) async throws(ProviderFailure) -> ProviderIdentity {
        guard ZephrCookie.isValue(session.reveal()) else {
            throw .rejected(OAuthError(status: 400, code: "invalid_session"))
        }
        var request = ProviderRequest.get(try base.at(own.paths.account))
        request.headers.append(("Cookie", own.cookieName + "=" + session.reveal()))
        let answer = try await caller.send(request, by: deadline)
        try answer.requireUsable(at: clock.now())
        if [401, 403, 404].contains(answer.status) {
            throw .rejected(OAuthError(status: answer.status, code: "invalid_session"))
        }
        guard answer.isSuccess, let object = answer.object else {
            throw .unusable(detail: "Zephr account: \(answer.summary), no object")
        }
        // An anonymous session lacks an e-mail address, so its user is unknown.
        guard let email = object.value(at: "/identifiers/email_address")?.string, !email.isEmpty else {
            throw .rejected(OAuthError(status: answer.status, code: "anonymous_session"))
        }
        let wanted = [
            ("email", "/identifiers/email_address"), ("email_verified", "/email_verified"),
            ("tracking_id", "/tracking_id"),
        ]
        return ProviderIdentity(
            subject: try IdentityMapper.subject(object, at: subjectPointer),
            claims: IdentityMapper.claims(object, wanted))
    }

    package func register(
        _ request: RegistrationRequest, by deadline: Duration
    ) async throws(ProviderFailure) -> RegistrationOutcome {
        let answer = try await caller.send(
            ProviderRequest(
                method: "POST", url: try base.at(own.paths.register), connection: .single,
                headers: [("Content-Type", "application/json"), ("Accept", "application/json")],
                body: ZephrWire.registration(request, own)), by: deadline)
        let now = clock.now()
        let meaning = own.statusMap[answer.status] ?? ZephrRegisterStatus.documented[answer.status]
        switch meaning {
        case .badAttributes: return .badAttributes
        case .userExists: return .userExists
        case .emailDomainDenied: return .emailDomainDenied
        case .stateInvalid: return .stateInvalid
        case .rateLimited: return .rateLimited(retryAfter: answer.retryAfter(at: now))
        case .providerError, nil: break
        }
        try answer.requireUsable(at: now)
        guard answer.status == 200, let cookie = ZephrWire.session(answer, name: own.cookieName, now: now) else {
            throw .unusable(detail: "Zephr register: \(answer.summary), no session")
        }
        return .registered(
            session: cookie.session, expiresAt: cookie.expiresAt ?? now.advanced(by: own.sessionLifetime))
    }

    package func registrationFields() async throws(ProviderFailure) -> [RegistrationField] {
        // If no attributes are configured, the site's schema decides.
        let asksSite = own.fields == .schema || own.requiredAttributes.isEmpty
        let fields = asksSite ? try await schema.current().value : own.requiredAttributes
        // The app may omit an attribute that has a default.
        let given = own.attributeDefaults.map(\.name)
        return fields.map { field in
            RegistrationField(
                name: field.name, type: field.type, required: field.required && !given.contains(field.name))
        }
    }

    package var sessionLifetime: Duration { own.sessionLifetime }

    package func logOut(_ session: Secret, by deadline: Duration) async throws(ProviderFailure) {
        guard ZephrCookie.isValue(session.reveal()) else { return }
        let answer = try await caller.send(
            ProviderRequest(
                method: "POST", url: try base.at(own.paths.logout), connection: .single,
                headers: [("Accept", "application/json"), ("Cookie", own.cookieName + "=" + session.reveal())],
                body: []), by: deadline)
        try answer.requireUsable(at: clock.now())
        // Zephr answers the log-out of a dead session in several ways. All of them mean that the session is dead.
        guard answer.isSuccess || [400, 401, 404].contains(answer.status) else {
            throw .unusable(detail: "Zephr logout: \(answer.summary)")
        }
    }
}

/// Reads the required attributes from the site's user schema, with an anonymous session.
struct ZephrSchema: Sendable {
    let own: ZephrSettings
    let base: EndpointURL
    let caller: ProviderCaller
    let clock: BrokerClock

    func fetch() async -> Result<(value: [RegistrationField], lifetime: Duration), ProviderFailure> {
        do throws(ProviderFailure) { return .success((try await fields(), .seconds(600))) } catch {
            return .failure(error)
        }
    }

    private func fields() async throws(ProviderFailure) -> [RegistrationField] {
        let opened = try await caller.send(
            ProviderRequest(
                method: "POST", url: try base.at(own.paths.anonymousSession), connection: .single,
                headers: [("Accept", "application/json")], body: []), by: caller.ownLimit)
        try opened.requireUsable(at: clock.now())
        guard opened.isSuccess, let cookie = ZephrWire.session(opened, name: own.cookieName, now: clock.now()) else {
            throw .unusable(detail: "Zephr anonymous session: \(opened.summary)")
        }
        var request = ProviderRequest.get(try base.at(own.paths.schema))
        request.headers.append(("Cookie", own.cookieName + "=" + cookie.session.reveal()))
        let answer = try await caller.send(request, by: caller.ownLimit)
        try answer.requireUsable(at: clock.now())
        let parsed = try? JSONParser.parse(answer.text, maximumBytes: ProviderAnswer.maximumBytes, maximumDepth: 16)
        guard answer.isSuccess, let items = parsed?.value.array else {
            throw .unusable(detail: "Zephr schema: \(answer.summary), no list")
        }
        return ZephrWire.fields(items)
    }
}
