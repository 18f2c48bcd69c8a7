import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// A broker, as one app on one device sees it.
///
/// ```swift
/// let coatcheck = Coatcheck(
///     broker: URL(string: "https://auth.example.com")!, client: "ios", storage: KeychainStorage(),
///     browser: SystemBrowser(scheme: "com.example.app"))
/// let signIn = try await coatcheck.signIn(with: "cloudentity")
/// ```
///
/// Make one and share it: calls made at the same time then share their requests. What can be sent again is sent again,
/// as `docs/apps/native-apps.md` says; what is thrown is a ``Problem`` or a ``CoatcheckError``.
public actor Coatcheck {
    nonisolated let broker: URL
    nonisolated let client: String?
    nonisolated let storage: any CredentialStorage
    nonisolated let key: (any ProofKey)?
    nonisolated let presenceKey: (any ProofKey)?
    nonisolated let onStepUp: (@Sendable (StepUp) async -> Bool)?
    /// The time in which the demands of calls that are refused together become one step-up.
    nonisolated let gathering: Duration
    nonisolated let browser: (any SignInBrowser)?
    nonisolated let patience: Patience
    nonisolated let now: @Sendable () -> Date
    let wire: Wire
    var nonce: String?
    var nonceReceived: Date?
    /// One prompt after the other.
    nonisolated let prompts = Turn()
    /// One page after the other.
    nonisolated let pages = Turn()
    var steppingUp: [SteppingUp] = []
    /// The number of step-ups so far, and what the last one met.
    var stepUps = 0
    var met: StepUp?
    var making: SharedCall<ProofPublicKey>?
    var renewing: (session: String?, call: SharedCall<Credentials.Pass?>)?
    /// Whether the client's sessions want a proof with each request.
    var provesEach = false
    private var asking: SharedCall<Session>?
    private var signingIn: [String: SharedCall<SignIn>] = [:]
    var endingSessions = false

    /// Creates what talks to a broker; `client` may be left out where the provider has one.
    ///
    /// Two accounts on one device are two of these, each with a storage of its own. With a `key` sessions belong to it,
    /// where the broker binds this client's; a `presenceKey` asks for the user each time (``registerPresenceKey()``).
    /// `onStepUp` decides whether a call that needs a stronger or more recent sign-in may open the browser for it; without it
    /// such a call throws a ``StepUpRequired``. `configuration` and `authenticate` are of the connections: a proxy, a pinned
    /// certificate.
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

    /// Creates what talks to a broker by another clock.
    init(
        broker: URL, client: String?, storage: any CredentialStorage, key: (any ProofKey)?,
        presenceKey: (any ProofKey)? = nil, browser: (any SignInBrowser)?,
        onStepUp: (@Sendable (StepUp) async -> Bool)? = nil, patience: Patience,
        configuration: URLSessionConfiguration = .ephemeral, authenticate: Wire.Authenticate? = nil,
        gathering: Duration = .milliseconds(100), now: @escaping @Sendable () -> Date
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
    }

    deinit { wire.close() }

    // MARK: - Signing in

    /// Signs the user in: starts a login, opens its page, forwards the callback.
    ///
    /// A second call while one for the same provider is under way waits for that one. Cancelling the last of them closes
    /// the browser. `stepUp` is what the sign-in has to meet: `maxAge` where the user, who may be signed in at the provider
    /// already, has to sign in now.
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

    /// Starts a login and returns the page to open, for apps that open it themselves; then ``finish(_:device:)``.
    public func start(
        _ provider: String, socialProvider: String? = nil, parameters: [String: String]? = nil, stepUp: StepUp? = nil
    ) async throws -> URL {
        try page(
            of: try await start(
                LoginBody(
                    provider: provider, client: client, social_provider: socialProvider, parameters: parameters,
                    step_up: stepUp)))
    }

    /// Finishes a sign-in with the whole URL that the browser came back with, unchanged: after a restart of the app, too.
    ///
    /// A user who comes from the provider's own portal is sent back to sign in once more, which takes no typing.
    public func finish(_ callback: URL, device: String? = nil) async throws -> SignIn {
        try await finish(callback, device: device, restarts: 1)
    }

    /// Forwards the callback of a login that the app started with a library of its own (flow B): the whole URL, unchanged.
    ///
    /// A library that keeps the URL to itself gives its code: see `forward(code:of:)`.
    public func forward(_ callback: URL, of login: AppLogin, device: String? = nil) async throws -> SignIn {
        try await forwarded(
            ForwardBody(
                provider: login.provider, client: login.client, callback_url: callback.absoluteString,
                code_verifier: login.codeVerifier, state: login.state, nonce: login.nonce, scope: login.scope,
                login_token: login.loginToken, device: device))
    }

    /// Forwards the code of a login that the app started with a library of its own.
    ///
    /// This is for libraries that check the callback and keep it to themselves, such as AppAuth.
    public func forward(code: String, of login: AppLogin, device: String? = nil) async throws -> SignIn {
        try await forwarded(
            ForwardBody(
                provider: login.provider, client: login.client, code: code, redirect_uri: login.redirectURI,
                code_verifier: login.codeVerifier, nonce: login.nonce, scope: login.scope,
                login_token: login.loginToken, device: device))
    }

    /// Forwards the code that a provider's own SDK gave the app.
    public func forward(code: String, of login: NativeLogin, device: String? = nil) async throws -> SignIn {
        try await forwarded(
            ForwardBody(
                provider: login.provider, client: login.client, code: code, nonce: login.nonce,
                login_token: login.loginToken, device: device))
    }

    /// Forwards the ID token that a provider's own SDK gave the app, with the login's nonce.
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
    /// ``ProblemCode/registrationRejected`` can be corrected once, with the same registration.
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

    /// Starts a login of the session that is kept.
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
        // A hosted callback names our login; no provider does.
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

    /// Keeps what a 201 gives, and forgets the login.
    private func made(_ answer: Answer) throws -> Session {
        var credentials = try kept()
        let session = try answer.decoded(Session.self).newest(credentials.lastSession)
        let given = try? answer.decoded(GivenBody.self)
        let token = given?.session_token
        credentials.transport = token == nil ? .cookie : .bearer
        guard let secret = token ?? answer.cookie(CookieNames(broker).session) else {
            throw CoatcheckError.notTheBroker(status: answer.status)
        }
        credentials.session = secret
        credentials.pass = pass(given?.pass, in: answer)
        credentials.login = nil
        credentials.loginID = nil
        credentials.lastSession = session
        try storage.write(credentials)
        // From now on calls share requests for the new session only.
        asking = nil
        return session
    }

    /// Keeps what the 200 of a step-up gives, and forgets the login: the session's secret stays.
    private func steppedUp(_ answer: Answer) throws -> Session {
        var credentials = try kept()
        let session = try answer.decoded(Session.self).newest(credentials.lastSession)
        if let pass = pass(try? answer.decoded(GivenBody.self).pass, in: answer) { credentials.pass = pass }
        (credentials.login, credentials.loginID) = (nil, nil)
        if credentials.session != nil { credentials.lastSession = session }
        try storage.write(credentials)
        return session
    }

    /// Keeps a login's secret before its page is opened.
    func keep(_ login: StartedLogin, from answer: Answer) throws {
        var credentials = try kept()
        credentials.transport = login.loginToken == nil ? .cookie : .bearer
        // A login joined by its cookie sets none: the one that is kept stays good.
        if let secret = login.loginToken ?? answer.cookie(CookieNames(broker).login) { credentials.login = secret }
        credentials.loginID = login.loginID
        try storage.write(credentials)
    }

    // MARK: - The session

    /// Returns how things stand, for the start of the app, within two seconds: never throws, and signs nobody out for want
    /// of a network.
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

    /// Returns who is signed in; calls at the same time, for the same session, share one request.
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

    /// Has the broker refresh the provider's tokens now.
    ///
    /// An app need not: the broker does it when it has to.
    public func refresh() async throws -> Session {
        try await remembered("POST", "/v1/session/refresh")
    }

    /// Signs out here, with or without a network: when it returns or throws, nothing of the session is on the device.
    ///
    /// Where the broker cannot be told now, it is told by a later call, after a restart of the app, too. With `atProvider`
    /// it returns the provider's log-out page to open in the browser, where it has one and the broker was reached.
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
            // An ending needs no key; the page is told to none without one.
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

    /// Asks for the session and keeps the answer, unless another took its place meanwhile.
    func remembered(_ method: String, _ path: String, patience: Patience? = nil) async throws -> Session {
        try await remembered(Call(method: method, path: path), patience: patience)
    }

    /// Makes a call whose answer is the session, and keeps that, unless another took its place meanwhile.
    func remembered(_ call: Call, patience: Patience? = nil) async throws -> Session {
        let sent = try kept().session
        let session = try await self.call(call, patience: patience).decoded(Session.self)
        return try remember(session, of: sent)
    }

    /// Keeps an answer of the session that a request was sent for, and returns the newest state of it that is known.
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
