import BrokerTestSupport
import Synchronization

@testable import Broker

/// A provider whose answers the test chooses.
///
/// The provider records the calls that it gets.
final class ScriptedProvider: CodeExchanging, TokenExchanging, TokenRevoking, SessionEnding, LogoutTokenVerifying,
    TokenImporting, LegacyClaiming, IDTokenTaking, EndpointOwning, CertificateShowing, Sendable
{
    struct Script: Sendable {
        var redeem: [ProviderFailure] = []
        var identify: [ProviderFailure] = []
        var refresh: [ProviderFailure] = []
        /// The results of the next calls for another API, in order.
        ///
        /// A failure lets the call fail; nil lets it succeed.
        var targeted: [ProviderFailure?] = []
        /// The reason why the access tokens for other APIs are unusable; nil if the tokens are usable.
        var isOfNoUse: String?
        var exchanges: [TargetExchange] = []
        /// Whether a token exchange with a proof returns a token that is bound to the proof's key.
        var exchangeBinds = true
        /// Called when a refresh call arrives.
        ///
        /// The closure may record in the flight's memory what the real code records while it sends a call.
        var meetsSending: @Sendable (RefreshSending) -> Void = { _ in }
        var revoke: [ProviderFailure] = []
        var endSession: [ProviderFailure] = []
        var start: ProviderFailure?
        var urlLifetime: Duration?
        var callbackFault: String?
        var refusal: String?
        var scope: [String]?
        var refreshedScope: [String]?
        /// Whether a token request with a proof returns tokens that are bound to the proof's key.
        var binds = true
        /// The thumbprint of the client certificate that the broker shows for its clients.
        ///
        /// For clients with `sender_constrained: mtls`, tokens are bound to this certificate.
        var certificate: String?
        var issuer = IssuerExpectation(issuer: "https://as.example", demanded: true)
        var subject = "user-1"
        var sid: String?
        var tokenLifetime: Duration? = .seconds(3600)
        var refreshToken = true
        /// The refresh token in every answer, if the provider never changes it; nil if each answer has a new one.
        var onlyRefreshToken: String?
        var signIn = SignInFacts()
        /// The facts about the user that came only with the callback, so that they are unverified.
        var unverified: [(name: String, value: JSONValue)] = []
        var refreshTokenLifetime: Duration?
        var refreshedSubject = RefreshedSubject.absent
        /// The access tokens that came together with the id_tokens that the provider was asked to check.
        var lookedAt: [String] = []
        var grants: [CodeGrant] = []
        var contexts: [IdentityContext] = []
        var requests: [AuthorizationRequest] = []
        var refreshes: [RefreshRequest] = []
        /// The deadlines of the calls that redeem a code, ask for the user's identity, or refresh.
        var deadlines: [Duration] = []
        var revoked = 0
        /// The access tokens whose revocation waits while the gate `hanging` is closed.
        var hangs: [String] = []
        var sessionsEnded = 0
        var logOutPage: String?
        var logOutPageHangs = false
        /// The user, the `sid` and the clients that a logout token names.
        ///
        /// If `clients` is nil, the token is for all clients.
        var logout: (subject: String?, sid: String?, clients: [ClientName]?) = ("user-1", nil, nil)
        /// The failure of each check of a logout token; nil if the checks succeed.
        var logoutFailure: ProviderFailure?
        var sidIsUnusable = false
        var keyFetches = 0
        /// The failures of the next checks of id_tokens that apps hand in.
        ///
        /// If the list is empty, the checks succeed.
        var idTokens: [ProviderFailure] = []
        var takesIDTokens = true
        var handed: [HandedIDToken] = []
        var importFault: FieldFault?
        /// Whether only an import with an id_token has `importFault`.
        var faultsOnlyIDTokens = false
        var spendsImportedTokens = true
        /// The clients' id at the provider.
        var clientID = "client-1"
        var imports: [ImportRequest] = []
        /// The failures of the imports after the first one, in order.
        ///
        /// If the list is empty, `refresh` decides.
        var laterImports: [ProviderFailure] = []
        /// The next answers of the old system.
        ///
        /// If the list is empty, the old system has a session with the refresh token `old-rt`.
        var legacy: [Result<LegacyAnswer, ProviderFailure>] = []
        var claims: [LegacyClaim] = []
        /// The time until the provider accepts calls again, because its endpoint is failing; nil if the provider accepts calls.
        var refusesCallsFor: Duration?
        var places = 256
    }

    let profile: ProviderProfile
    let clock: TestClock
    let script: Mutex<Script>
    /// The gate for calls that redeem a code, refresh or exchange a token.
    ///
    /// The calls wait while the gate is closed.
    let gate = Gate()
    /// The gate for calls that redeem a code.
    let redeeming = Gate()
    /// The gate for imports after the first one.
    let renewing = Gate()
    /// The gate for calls that ask who the user of new tokens is.
    let identifying = Gate()
    /// The gate for checks of the subject in a refresh's answer.
    let looking = Gate()
    /// The gate for questions to the old system.
    let claiming = Gate()
    /// The gate for revocations of the access tokens in `hangs`.
    let hanging = Gate()

    init(profile: ProviderProfile, clock: TestClock, script: Script = Script()) {
        self.profile = profile
        self.clock = clock
        self.script = Mutex(script)
    }

    func startAuthorization(
        _ request: AuthorizationRequest, by deadline: Duration
    ) async throws(ProviderFailure) -> AuthorizationStart {
        let script = script.withLock { script in
            script.requests.append(request)
            return script
        }
        if let failure = script.start { throw failure }
        return AuthorizationStart(
            url: Secret("https://as.example/authorize?state=\(request.state.reveal())"), issuer: script.issuer,
            demands: SignInDemands(request.parameters), lifetime: script.urlLifetime)
    }

    func certificate(of client: ClientName) -> String? { script.withLock { $0.certificate } }

    /// Returns the tokens.
    ///
    /// If the client requires it, the tokens are bound to the client's certificate.
    private func certified(_ tokens: TokenSet, _ client: ClientName, isCertified: Bool = false) -> TokenSet {
        guard isCertified || profile.client(client)?.senderConstraint == .mtls else { return tokens }
        return tokens.bound(to: certificate(of: client))
    }

    func owns(_ address: ProofAddress) async throws(ProviderFailure) -> Bool {
        address.origin == "https://as.example" && address.path == "/token"
    }

    var refusesCallsFor: Duration? { script.withLock { $0.refusesCallsFor } }
    var places: Int { script.withLock { $0.places } }

    func issuerExpectation() async throws(ProviderFailure) -> IssuerExpectation { script.withLock { $0.issuer } }

    func redeem(_ grant: CodeGrant, by deadline: Duration) async throws(ProviderFailure) -> TokenSet {
        let failure = script.withLock { script -> ProviderFailure? in
            script.grants.append(grant)
            script.deadlines.append(deadline)
            return script.redeem.isEmpty ? nil : script.redeem.removeFirst()
        }
        try await pass(gate, redeeming)
        if let failure { throw failure }
        var tokens = tokens("\(grants)")
        tokens.refusal = script.withLock { $0.refusal }
        if let proof = grant.proof {
            if script.withLock({ $0.binds }) {
                tokens = keyed(tokens, proof)
            } else {
                tokens.refusal = "not bound"
            }
        }
        tokens.scope = script.withLock { $0.scope }
        return certified(tokens, grant.client)
    }

    func identify(
        _ tokens: TokenSet, _ context: IdentityContext, by deadline: Duration
    ) async throws(ProviderFailure) -> ProviderIdentity {
        let (failure, script) = script.withLock { script -> (ProviderFailure?, Script) in
            script.contexts.append(context)
            script.deadlines.append(deadline)
            return (script.identify.isEmpty ? nil : script.identify.removeFirst(), script)
        }
        await identifying.pass()
        if let failure { throw failure }
        var identity = ProviderIdentity(
            subject: script.subject, claims: [("name", .string("Ana"))], unverified: script.unverified,
            sid: script.sid)
        identity.sidIsUnusable = script.sidIsUnusable
        identity.signIn = script.signIn
        return identity
    }

    func refresh(_ request: RefreshRequest, by deadline: Duration) async throws(ProviderFailure) -> TokenSet {
        script.withLock { $0.meetsSending }(request.sending)
        let failure = script.withLock { script -> ProviderFailure? in
            script.refreshes.append(request)
            script.deadlines.append(deadline)
            if request.target != nil { return script.targeted.isEmpty ? nil : script.targeted.removeFirst() }
            return script.refresh.isEmpty ? nil : script.refresh.removeFirst()
        }
        try await pass(gate)
        if let failure { throw failure }
        var tokens = tokens("r\(refreshes)")
        if let target = request.target { tokens.accessToken = Secret("\(target.audience ?? "")-\(refreshes)") }
        if request.target != nil, let refusal = script.withLock({ $0.isOfNoUse }) {
            (tokens.accessToken, tokens.expiresAt, tokens.refusal) = (Secret(""), nil, refusal)
        }
        if let proof = request.proof {
            if script.withLock({ $0.binds }) {
                tokens = keyed(tokens, proof)
            } else if request.isBound {
                (tokens.accessToken, tokens.expiresAt) = (Secret(""), nil)
            }
        }
        tokens.scope = script.withLock { $0.refreshedScope }
        return certified(tokens, request.client, isCertified: request.isCertified)
    }

    func exchange(_ request: TargetExchange, by deadline: Duration) async throws(ProviderFailure) -> TokenSet {
        let failure = script.withLock { script -> ProviderFailure? in
            script.exchanges.append(request)
            return script.targeted.isEmpty ? nil : script.targeted.removeFirst()
        }
        try await pass(gate)
        if let failure { throw failure }
        var tokens = tokens("x")
        tokens.accessToken = Secret("exchanged-\(script.withLock { $0.exchanges.count })")
        tokens.refreshToken = Secret("rt-of-another-grant")
        if let proof = request.proof, script.withLock({ $0.exchangeBinds }) { tokens = keyed(tokens, proof) }
        return tokens
    }

    func takesIDTokens(of client: ClientName) -> Bool { script.withLock { $0.takesIDTokens } }

    func identify(
        _ token: HandedIDToken, mayFetchKeys: @escaping @Sendable () -> Bool
    ) async throws(ProviderFailure) -> ProviderIdentity {
        let (failure, script) = script.withLock { script -> (ProviderFailure?, Script) in
            script.handed.append(token)
            return (script.idTokens.isEmpty ? nil : script.idTokens.removeFirst(), script)
        }
        if token.token.reveal().hasPrefix("new-key") {
            guard mayFetchKeys() else { throw .identityRejected(detail: "no key fits the token") }
            self.script.withLock { $0.keyFetches += 1 }
        }
        await gate.pass()
        if let failure { throw failure }
        return ProviderIdentity(subject: script.subject, claims: [("name", .string("Ana"))], sid: script.sid)
    }

    func claim(_ claim: LegacyClaim, by deadline: Duration) async throws(ProviderFailure) -> LegacyAnswer {
        let answer = script.withLock { script in
            script.claims.append(claim)
            return script.legacy.isEmpty
                ? .success(.session(LegacySession(refreshToken: Secret("old-rt")))) : script.legacy.removeFirst()
        }
        await claiming.pass()
        return try answer.get()
    }

    var spendsImportedTokens: Bool { script.withLock { $0.spendsImportedTokens } }

    func clientID(of client: ClientName) -> String { script.withLock { $0.clientID } }

    func importFault(_ tokens: ImportedTokens, client: ClientName) -> FieldFault? {
        script.withLock { $0.faultsOnlyIDTokens && tokens.idToken == nil ? nil : $0.importFault }
    }

    func takeOver(_ request: ImportRequest, by deadline: Duration) async throws(ProviderFailure) -> TokenSet {
        let failure = script.withLock { script -> ProviderFailure? in
            script.imports.append(request)
            return script.imports.count > 1 && !script.laterImports.isEmpty ? script.laterImports.removeFirst() : nil
        }
        if script.withLock({ $0.imports.count > 1 }) { await renewing.pass() }
        if let failure { throw failure }
        var refresh = RefreshRequest(
            client: request.client, refreshToken: request.tokens.refreshToken ?? Secret(""),
            accessToken: request.tokens.accessToken ?? Secret(""), idempotencyKey: request.idempotencyKey)
        refresh.proof = request.proof
        return try await self.refresh(refresh, by: deadline)
    }

    func identifyImported(
        _ tokens: TokenSet, of imported: ImportedTokens, _ context: IdentityContext, by deadline: Duration
    ) async throws(ProviderFailure) -> ProviderIdentity { try await identify(tokens, context, by: deadline) }

    func callbackFault(_ parameters: [(name: String, value: String)], client: ClientName) -> String? {
        script.withLock { $0.callbackFault }
    }

    func subjectOfRefreshed(
        _ tokens: TokenSet, before: TokenSet, client: ClientName
    ) async throws(ProviderFailure) -> RefreshedSubject {
        let found = script.withLock { script in
            script.lookedAt.append(tokens.accessToken.reveal())
            return script.refreshedSubject
        }
        await looking.pass()
        return found
    }

    func revoke(_ tokens: TokenSet, client: ClientName, by deadline: Duration) async throws(ProviderFailure) {
        let failure = script.withLock { script -> ProviderFailure? in
            script.revoked += 1
            return script.revoke.isEmpty ? nil : script.revoke.removeFirst()
        }
        if script.withLock({ $0.hangs.contains(tokens.accessToken.reveal()) }) { await hanging.pass() }
        if let failure { throw failure }
    }

    func endSession(
        _ tokens: TokenSet, client: ClientName, by deadline: Duration
    ) async throws(ProviderFailure) -> Bool {
        let failure = script.withLock { script -> ProviderFailure? in
            script.sessionsEnded += 1
            return script.endSession.isEmpty ? nil : script.endSession.removeFirst()
        }
        if let failure { throw failure }
        return true
    }

    func logOutPage(
        _ tokens: TokenSet, client: ClientName, state: Secret
    ) async throws(ProviderFailure) -> Secret? {
        let (page, hangs) = script.withLock { ($0.logOutPage, $0.logOutPageHangs) }
        if hangs { await hanging.pass() }
        return page.map { Secret($0 + "?state=" + state.reveal()) }
    }

    func verifyLogoutToken(
        _ token: Secret, mayFetchKeys: @escaping @Sendable () -> Bool
    ) async throws(ProviderFailure) -> LogoutNotice {
        if let failure = script.withLock({ $0.logoutFailure }) { throw failure }
        guard token.reveal() != "bad" else { throw .identityRejected(detail: "bad") }
        if token.reveal().hasPrefix("new-key") {
            guard mayFetchKeys() else { throw .identityRejected(detail: "no key fits the token") }
            script.withLock { $0.keyFetches += 1 }
            guard token.reveal() != "new-key-forged" else { throw .identityRejected(detail: "no key fits the token") }
        }
        let named = script.withLock { $0.logout }
        return LogoutNotice(
            subject: named.subject, sid: token.reveal().hasPrefix("sid-") ? token.reveal() : named.sid,
            clients: named.clients ?? profile.clients.map(\.name), tokenID: token.reveal(),
            rememberUntil: clock.now.advanced(by: .seconds(600)))
    }

    private func keyed(_ tokens: TokenSet, _ proof: ProofMaker) -> TokenSet {
        var tokens = tokens
        tokens.credential = .dpop
        tokens.key = TokenKey(pair: proof.key, usesNonces: true)
        return tokens
    }

    /// Waits until each of the gates is open.
    ///
    /// If the call's task is cancelled meanwhile, its answer is lost, as on a real connection.
    private func pass(_ gates: Gate...) async throws(ProviderFailure) {
        for gate in gates { await gate.pass() }
        if Task.isCancelled { throw .lost(detail: "the call's task was cancelled") }
    }

    private func tokens(_ tag: String) -> TokenSet {
        let script = script.withLock { $0 }
        return TokenSet(
            accessToken: Secret("at-\(tag)"),
            refreshToken: script.refreshToken ? Secret(script.onlyRefreshToken ?? "rt-\(tag)") : nil,
            idToken: script.refreshedSubject == .absent ? nil : Secret("id"),
            expiresAt: script.tokenLifetime.map { clock.now.advanced(by: $0) },
            refreshExpiresAt: script.refreshTokenLifetime.map { clock.now.advanced(by: $0) })
    }

    var grants: Int { script.withLock { $0.grants.count } }
    var refreshes: Int { script.withLock { $0.refreshes.count } }
}

/// A gate that a test closes and opens.
///
/// Calls wait while the gate is closed.
final class Gate: Sendable {
    private struct State {
        var closed = false
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Mutex(State())

    func close() { state.withLock { $0.closed = true } }

    /// Lets the calls that arrive from now on pass.
    ///
    /// Calls that already wait go on waiting.
    func passNewcomers() { state.withLock { $0.closed = false } }

    func open() {
        let waiting = state.withLock { state in
            defer { state = State() }
            return state.waiting
        }
        for continuation in waiting { continuation.resume() }
    }

    func pass() async {
        await withCheckedContinuation { continuation in
            let wait = state.withLock { state in
                if state.closed { state.waiting.append(continuation) }
                return state.closed
            }
            if !wait { continuation.resume() }
        }
    }

    var waiting: Int { state.withLock { $0.waiting.count } }
}
