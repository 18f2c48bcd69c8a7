import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// The broker for one app on one device.
///
/// ```swift
/// let coatcheck = Coatcheck(
///     broker: URL(string: "https://auth.example.com")!, client: "ios", storage: KeychainStorage(),
///     browser: SystemBrowser(scheme: "com.example.app"))
/// let signIn = try await coatcheck.signIn(with: "oidc")
/// ```
///
/// Make one object and share it, so that simultaneous calls share their requests. A call is repeated automatically if that
/// is safe, as `docs/apps/native-apps.md` describes. Methods throw a ``Problem`` or a ``CoatcheckError``.
public actor Coatcheck {
    nonisolated let broker: URL
    nonisolated let client: String?
    nonisolated let storage: any CredentialStorage
    nonisolated let key: (any ProofKey)?
    nonisolated let presenceKey: (any ProofKey)?
    nonisolated let onStepUp: (@Sendable (StepUp) async -> Bool)?
    /// The time that a step-up waits for further refused calls, to combine their demands.
    nonisolated let gathering: Duration
    nonisolated let browser: (any SignInBrowser)?
    nonisolated let patience: Patience
    nonisolated let now: @Sendable () -> Date
    let wire: Wire
    var nonce: String?
    var nonceReceived: Date?
    /// The queue for prompts, so that only one prompt is open at a time.
    nonisolated let prompts = Turn()
    /// The queue for pages, so that only one page is open at a time.
    nonisolated let pages = Turn()
    var steppingUp: [SteppingUp] = []
    /// The number of step-ups so far, and the demand that the last step-up met.
    var stepUps = 0
    var met: StepUp?
    var making: SharedCall<ProofPublicKey>?
    var renewing: (session: String?, call: SharedCall<Credentials.Pass?>)?
    /// Whether the client's sessions need a proof with each request.
    var provesEach = false
    private var asking: SharedCall<Session>?
    private var signingIn: [String: SharedCall<SignIn>] = [:]
    var moving: SharedCall<MovedIn>?
    nonisolated let moveInPatience: MoveInPatience
    var endingSessions = false

    /// Creates the object for one broker.
    ///
    /// `client` is the client's name in the broker's configuration. It is optional if the provider has only one client.
    ///
    /// For two accounts on one device, create two objects with different storages. With a `key`, sessions belong to the
    /// key if the broker binds this client's sessions. A `presenceKey` asks the user before each signature
    /// (``registerPresenceKey()``).
    ///
    /// `onStepUp` decides whether a call that needs a stronger or more recent sign-in may open the browser. Without
    /// `onStepUp`, such a call throws a ``StepUpRequired``. `configuration` and `authenticate` concern the connections,
    /// for example a proxy or a pinned certificate.
    public init(
        broker: URL, client: String? = nil, storage: any CredentialStorage, key: (any ProofKey)? = nil,
        presenceKey: (any ProofKey)? = nil, browser: (any SignInBrowser)? = nil,
        onStepUp: (@Sendable (StepUp) async -> Bool)? = nil, patience: Patience = Patience(),
        configuration: URLSessionConfiguration = .ephemeral,
        authenticate: (
            @Sendable (URLAuthenticationChallenge) async -> (URLSession.AuthChallengeDisposition, URLCredential?)
        )? = nil
    ) {
        self.init(
            broker: broker, client: client, storage: storage, key: key, presenceKey: presenceKey, browser: browser,
            onStepUp: onStepUp, patience: patience, configuration: configuration, authenticate: authenticate,
            now: { Date() })
    }

    /// Creates the object with another clock and another time for combining step-ups, for tests.
    init(
        broker: URL, client: String?, storage: any CredentialStorage, key: (any ProofKey)?,
        presenceKey: (any ProofKey)? = nil, browser: (any SignInBrowser)?,
        onStepUp: (@Sendable (StepUp) async -> Bool)? = nil, patience: Patience,
        configuration: URLSessionConfiguration = .ephemeral, authenticate: Wire.Authenticate? = nil,
        gathering: Duration = .milliseconds(100), moveInPatience: MoveInPatience = MoveInPatience(),
        now: @escaping @Sendable () -> Date
    ) {
        wire = Wire(configuration, authenticate: authenticate)
        self.broker = broker
        self.client = client
        self.storage = storage
        self.key = key
        self.presenceKey = presenceKey
        self.onStepUp = onStepUp
        self.gathering = gathering
        self.now = now
        self.browser = browser
        self.patience = patience
        self.moveInPatience = moveInPatience
    }

    deinit { wire.close() }

    // MARK: - Signing in

    /// Signs the user in: starts a login, opens its page, and forwards the callback.
    ///
    /// A second call for the same provider waits for the first call, and returns the same result. The browser closes if
    /// all these calls are cancelled.
    ///
    /// `stepUp` is a demand on the sign-in. With its `maxAge`, even a user with a session at the provider has to sign in
    /// again.
    public func signIn(
        with provider: String, device: String? = nil, socialProvider: String? = nil,
        parameters: [String: String]? = nil, stepUp: StepUp? = nil
    ) async throws -> SignIn {
        if let call = signingIn[provider], call.isOpen { return try await call.value() }
        let body = LoginBody(
            provider: provider, client: client, social_provider: socialProvider, parameters: parameters,
            step_up: stepUp)
        let call = SharedCall { try await self.follow(try await self.start(body), device: device) }
        signingIn[provider] = call
        defer { if signingIn[provider] === call { signingIn[provider] = nil } }
        return try await call.value()
    }

    /// Starts a login and returns the page to open, for apps that open it themselves.
    ///
    /// Continue with ``finish(_:device:)``.
    public func start(
        _ provider: String, socialProvider: String? = nil, parameters: [String: String]? = nil, stepUp: StepUp? = nil
    ) async throws -> URL {
        try page(
            of: try await start(
                LoginBody(
                    provider: provider, client: client, social_provider: socialProvider, parameters: parameters,
                    step_up: stepUp)))
    }

    /// Finishes a sign-in with the whole, unchanged URL that the browser returned, even after a restart of the app.
    ///
    /// If the user began at the provider's own portal (flow D), the browser opens a second time. The user is
    /// usually still signed in at the provider, and types nothing.
    public func finish(_ callback: URL, device: String? = nil) async throws -> SignIn {
        try await finish(callback, device: device, restarts: 1)
    }

    /// Forwards the whole, unchanged callback URL of a login that the app started with its own library (flow B).
    ///
    /// If the library does not reveal the URL, forward its code with `forward(code:of:)`.
    public func forward(_ callback: URL, of login: AppLogin, device: String? = nil) async throws -> SignIn {
        try await forwarded(
            ForwardBody(
                provider: login.provider, client: login.client, callback_url: callback.absoluteString,
                code_verifier: login.codeVerifier, state: login.state, nonce: login.nonce, scope: login.scope,
                login_token: login.loginToken, device: device))
    }

    /// Forwards the code of a login that the app started with its own library.
    ///
    /// Use this method with libraries that check the callback themselves and do not reveal its URL, such as AppAuth.
    public func forward(code: String, of login: AppLogin, device: String? = nil) async throws -> SignIn {
        try await forwarded(
            ForwardBody(
                provider: login.provider, client: login.client, code: code, redirect_uri: login.redirectURI,
                code_verifier: login.codeVerifier, nonce: login.nonce, scope: login.scope,
                login_token: login.loginToken, device: device))
    }

    /// Forwards the code that a provider's native SDK gave the app.
    public func forward(code: String, of login: NativeLogin, device: String? = nil) async throws -> SignIn {
        try await forwarded(
            ForwardBody(
                provider: login.provider, client: login.client, code: code, nonce: login.nonce,
                login_token: login.loginToken, device: device))
    }

    /// Forwards the ID token that a provider's native SDK gave the app, with the login's nonce.
    public func forward(idToken: String, of login: NativeLogin, device: String? = nil) async throws -> SignIn {
        try await forwarded(
            ForwardBody(
                provider: login.provider, client: login.client, id_token: idToken, nonce: login.nonce,
                login_token: login.loginToken, device: device))
    }

    /// Returns the providers that the broker offers.
    public func providers() async throws -> [Provider] {
        try await call(
            Call(method: "GET", path: "/v1/providers", needed: .login, evidence: .none)
        ).decoded(ProviderList.self).items
    }

    /// Finishes a Zephr registration.
    ///
    /// After ``ProblemCode/registrationRejected``, the attributes can be corrected once with the same registration.
    public func register(_ registration: Registration, attributes: [String: JSONValue]) async throws -> Session {
        let credentials = try kept()
        let body = RegistrationBody(
            provider: registration.provider, client: client, state_key: registration.stateKey, attributes: attributes,
            login_token: credentials.transport == .bearer ? credentials.login : nil)
        return try made(try await call("POST", "/v1/registrations", body: body))
    }

    private func start(_ body: LoginBody) async throws -> StartedLogin {
        let answer = try await call("POST", "/v1/logins", body: body, with: .login)
        let login = try answer.decoded(StartedLogin.self)
        try keep(login, from: answer)
        return login
    }

    /// Starts a login for a step-up of the stored session.
    func start(_ demand: StepUp) async throws -> StartedLogin {
        let answer = try await call("POST", "/v1/logins", body: LoginBody(step_up: demand), evidence: .proof)
        let login = try answer.decoded(StartedLogin.self)
        try keep(login, from: answer)
        return login
    }

    func page(of login: StartedLogin) throws -> URL {
        guard let page = URL(string: login.authorizationURL) else { throw CoatcheckError.notTheBroker(status: 201) }
        return page
    }

    func follow(
        _ login: StartedLogin, device: String?, restarts: Int = 1, evidence: Call.Evidence = .signIn
    ) async throws -> SignIn {
        guard let browser else { throw CoatcheckError.noBrowser }
        let callback = try await browser.open(try page(of: login))
        return try await finish(callback, device: device, restarts: restarts, evidence: evidence)
    }

    private func finish(
        _ callback: URL, device: String?, restarts: Int, evidence: Call.Evidence = .signIn
    ) async throws -> SignIn {
        let credentials = try kept()
        let query = URLComponents(url: callback, resolvingAgainstBaseURL: false)?.queryItems ?? []
        func value(_ name: String) -> String? { query.first { $0.name == name }?.value }
        var body = ForwardBody(callback_url: callback.absoluteString, device: device)
        // Only a hosted callback contains the ID of the login.
        if let id = value("login_id"), id == credentials.loginID {
            if let code = value("error") { throw CoatcheckError.loginFailed(ProblemCode(rawValue: code)) }
            if let handoff = value("handoff") { body = ForwardBody(handoff: handoff, device: device) }
        }
        if credentials.transport == .bearer { body.login_token = credentials.login }
        do { return try await forwarded(body, evidence: evidence) } catch let problem as Problem {
            guard problem.code == .loginRequired, let login = problem.login, restarts > 0, browser != nil else {
                throw problem
            }
            return try await follow(login, device: device, restarts: restarts - 1)
        }
    }

    private func forwarded(_ body: ForwardBody, evidence: Call.Evidence = .signIn) async throws -> SignIn {
        let answer = try await call("POST", "/v1/sessions", body: body, evidence: evidence)
        if answer.status == 200 { return .signedIn(try steppedUp(answer)) }
        if answer.status == 202 { return .registration(try answer.decoded(Registration.self)) }
        return .signedIn(try made(answer))
    }

    /// Stores the session from a 201 response, and deletes the login's secret.
    func made(_ answer: Answer) throws -> Session {
        var credentials = try kept()
        let session = try answer.decoded(Session.self).newest(credentials.lastSession)
        let given = try? answer.decoded(GivenBody.self)
        let secret = try ending(of: answer)
        (credentials.session, credentials.transport) = (secret.session, secret.transport)
        credentials.pass = pass(given?.pass, in: answer)
        credentials.login = nil
        credentials.loginID = nil
        credentials.lastSession = session
        try storage.write(credentials)
        // Calls must not join a request of the earlier session.
        asking = nil
        return session
    }

    /// Returns the secret of the session from a 201 response.
    func ending(of answer: Answer) throws -> Credentials.Ending {
        let token = (try? answer.decoded(GivenBody.self))?.session_token
        guard let secret = token ?? answer.cookie(CookieNames(broker).session) else {
            throw CoatcheckError.notTheBroker(status: answer.status)
        }
        return Credentials.Ending(session: secret, transport: token == nil ? .cookie : .bearer)
    }

    /// Stores the session from a step-up's 200 response, and deletes the login's secret.
    ///
    /// The session's secret is unchanged.
    private func steppedUp(_ answer: Answer) throws -> Session {
        var credentials = try kept()
        let session = try answer.decoded(Session.self).newest(credentials.lastSession)
        if let pass = pass(try? answer.decoded(GivenBody.self).pass, in: answer) { credentials.pass = pass }
        (credentials.login, credentials.loginID) = (nil, nil)
        if credentials.session != nil { credentials.lastSession = session }
        try storage.write(credentials)
        return session
    }

    /// Stores a login's secret before the login's page is opened.
    func keep(_ login: StartedLogin, from answer: Answer) throws {
        var credentials = try kept()
        credentials.transport = login.loginToken == nil ? .cookie : .bearer
        // If the response contains no secret, the stored secret remains.
        if let secret = login.loginToken ?? answer.cookie(CookieNames(broker).login) { credentials.login = secret }
        credentials.loginID = login.loginID
        try storage.write(credentials)
    }

    // MARK: - The session

    /// Returns the state of the sign-in within two seconds, for the start of the app.
    ///
    /// The method never throws. Users stay signed in if the network is missing.
    public func standing() async -> Standing {
        let last = (try? kept())?.lastSession
        do {
            guard try kept().session != nil else {
                endSessions()
                return .signedOut(reason: nil)
            }
            return .signedIn(try await remembered("GET", "/v1/session", patience: .atStart))
        } catch let problem as Problem where problem.endsSession {
            return .signedOut(reason: problem.reason)
        } catch CoatcheckError.keyLost {
            return .signedOut(reason: Self.keyLost)
        } catch {
            return .unknown(last: last)
        }
    }

    /// Returns the session of the signed-in user.
    ///
    /// Simultaneous calls for the same session share one request.
    public func session() async throws -> Session {
        if let asking, asking.isOpen { return try await asking.value() }
        let call = SharedCall { try await self.remembered("GET", "/v1/session") }
        asking = call
        defer { if asking === call { asking = nil } }
        return try await call.value()
    }

    /// Returns the provider's access token, for an SDK on the device (clients with `hand_out_access_token: true`).
    public func accessToken() async throws -> AccessToken {
        try await call(Call(method: "POST", path: "/v1/session/token", evidence: .proof)).decoded(AccessToken.self)
    }

    /// Asks the broker to refresh the provider's tokens now.
    ///
    /// Apps rarely need this, because the broker refreshes them in time.
    public func refresh() async throws -> Session {
        try await remembered("POST", "/v1/session/refresh")
    }

    /// Signs out on this device, with or without a network.
    ///
    /// Afterwards, the user's data is gone from the device, even if the broker refuses the call.
    ///
    /// Only the session's secret stays stored until the broker has ended the session. If the broker is unreachable, a
    /// later call ends the session at the broker, even after a restart of the app.
    ///
    /// With `atProvider`, the result is the provider's logout page to open in the browser. The result is nil if the
    /// provider has no such page, the broker did not answer in time, or the session's key is lost.
    @discardableResult
    public func signOut(atProvider: Bool = false) async throws -> URL? {
        let before = try kept()
        var credentials = before
        credentials.signOut()
        let ending = credentials.endings.last
        try keepOrForget(credentials)
        asking = nil
        guard let ending else { return nil }
        do {
            guard atProvider else {
                try await end(ending)
                return nil
            }
            let answer = try await end(ending, shownBy: before)
            return try answer.decoded(LogOutBody.self).logout_url.flatMap { URL(string: $0) }
        } catch CoatcheckError.unreachable {
            return nil
        } catch CoatcheckError.keyLost {
            // Without the key, there is no evidence. The broker ends the session without evidence, but does not return
            // the logout page.
            endSessions()
            return nil
        } catch let problem as Problem where problem.passes {
            return nil
        }
    }

    /// Returns the user's sessions on all devices, newest first.
    public func sessions() async throws -> [Session] {
        var found: [Session] = []
        var cursor: String?
        repeat {
            let page = try await call(
                Call(method: "GET", path: "/v1/sessions", query: cursor.map { "cursor=\($0)" })
            ).decoded(SessionPage.self)
            found += page.items
            cursor = page.next_cursor
        } while cursor != nil
        return found
    }

    /// Ends one of the user's sessions.
    public func end(_ handle: String) async throws {
        _ = try await call(Call(method: "DELETE", path: "/v1/sessions/\(handle)"))
    }

    /// Ends the user's sessions on all other devices.
    public func endOthers() async throws {
        _ = try await call(Call(method: "DELETE", path: "/v1/sessions", query: "except=current"))
    }

    /// Requests the session object and stores it, unless another session replaced this session meanwhile.
    func remembered(_ method: String, _ path: String, patience: Patience? = nil) async throws -> Session {
        try await remembered(Call(method: method, path: path), patience: patience)
    }

    /// Makes a call that returns the session object, and stores it, unless another session replaced this session
    /// meanwhile.
    func remembered(_ call: Call, patience: Patience? = nil) async throws -> Session {
        let sent = try kept().session
        let session = try await self.call(call, patience: patience).decoded(Session.self)
        return try remember(session, of: sent)
    }

    /// Stores a session object from a response if the request sent the token of the stored session (`sent`).
    ///
    /// Returns the newer of this object and the stored object.
    func remember(_ session: Session, of sent: String?) throws -> Session {
        var credentials = try kept()
        let newest = session.newest(credentials.lastSession)
        guard let sent, credentials.session == sent else { return newest }
        credentials.lastSession = newest
        try storage.write(credentials)
        return newest
    }

    // MARK: - Bodies, as they are on the wire

    private struct LoginBody: Encodable {
        var provider: String?
        var client: String?
        var social_provider: String?
        var parameters: [String: String]?
        var step_up: StepUp?
    }

    private struct ForwardBody: Encodable {
        var provider: String?
        var client: String?
        var callback_url: String?
        var handoff: String?
        var code: String?
        var id_token: String?
        var redirect_uri: String?
        var code_verifier: String?
        var state: String?
        var nonce: String?
        var scope: String?
        var login_token: String?
        var device: String?
    }

    private struct RegistrationBody: Encodable {
        var provider: String
        var client: String?
        var state_key: String
        var attributes: [String: JSONValue]
        var login_token: String?
    }

    private struct GivenBody: Decodable {
        var session_token: String?
        var pass: PassBody?
    }
    private struct LogOutBody: Decodable { var logout_url: String? }
    private struct ProviderList: Decodable { var items: [Provider] }
    private struct SessionPage: Decodable {
        var items: [Session]
        var next_cursor: String?
    }
}
