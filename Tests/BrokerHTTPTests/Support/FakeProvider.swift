import Broker
import BrokerTestSupport
import Synchronization

/// A provider that accepts everything, unless a test's script refuses.
final class FakeProvider: CodeExchanging, TokenRefreshing, LogoutTokenVerifying, IDTokenTaking, Sendable {
    struct Script: Sendable {
        var startFailure: ProviderFailure?
        var urlLifetime: Duration?
        var redeemFailure: ProviderFailure?
        var refreshFailure: ProviderFailure?
        /// Called when a refresh call has reached the provider.
        var meetsRefresh: @Sendable () -> Void = {}
        var subject = "user-1"
        var claims: [(name: String, value: JSONValue)] = [
            ("name", .string("Ana")), ("email", .string("ana@example.org")),
        ]
        var signIn = SignInFacts()
        var accessToken = "canary-access"
        var credential = TokenSet.Credential.bearer
        var grants = 0
        var refreshes = 0
    }

    let profile: ProviderProfile
    let script = Mutex(Script())

    init(profile: ProviderProfile) { self.profile = profile }

    /// Changes the next answers.
    func change(_ body: @Sendable (inout Script) -> Void) { script.withLock { body(&$0) } }

    func startAuthorization(
        _ request: AuthorizationRequest, by deadline: Duration
    ) async throws(ProviderFailure) -> AuthorizationStart {
        let script = script.withLock { $0 }
        if let failure = script.startFailure { throw failure }
        return AuthorizationStart(
            url: Secret("https://as.example/authorize?state=\(request.state.reveal())"),
            issuer: IssuerExpectation(issuer: profile.issuer, demanded: false), lifetime: script.urlLifetime)
    }

    func takesIDTokens(of client: ClientName) -> Bool { true }

    func identify(
        _ token: HandedIDToken, mayFetchKeys: @escaping @Sendable () -> Bool
    ) async throws(ProviderFailure) -> ProviderIdentity {
        guard token.token.reveal().hasPrefix("good") else { throw .identityRejected(detail: "canary-detail") }
        let script = script.withLock { $0 }
        return ProviderIdentity(subject: script.subject, claims: script.claims)
    }

    func issuerExpectation() async throws(ProviderFailure) -> IssuerExpectation {
        IssuerExpectation(issuer: profile.issuer, demanded: false)
    }

    func redeem(_ grant: CodeGrant, by deadline: Duration) async throws(ProviderFailure) -> TokenSet {
        let script = script.withLock { script in
            script.grants += 1
            return script
        }
        if let failure = script.redeemFailure { throw failure }
        return TokenSet(
            credential: script.credential, accessToken: Secret(script.accessToken),
            refreshToken: Secret("canary-refresh"),
            scope: ["openid", "email"], expiresAt: TestClock.start.advanced(by: .seconds(3600)))
    }

    func identify(
        _ tokens: TokenSet, _ context: IdentityContext, by deadline: Duration
    ) async throws(ProviderFailure) -> ProviderIdentity {
        let script = script.withLock { $0 }
        var identity = ProviderIdentity(subject: script.subject, claims: script.claims)
        identity.signIn = script.signIn
        return identity
    }

    func refresh(_ request: RefreshRequest, by deadline: Duration) async throws(ProviderFailure) -> TokenSet {
        let script = script.withLock { script in
            script.refreshes += 1
            return script
        }
        script.meetsRefresh()
        if let failure = script.refreshFailure { throw failure }
        return TokenSet(
            accessToken: Secret("canary-access-2"), refreshToken: Secret("canary-refresh-2"),
            expiresAt: TestClock.start.advanced(by: .seconds(7200)))
    }

    func subjectOfRefreshed(
        _ tokens: TokenSet, before: TokenSet, client: ClientName
    ) async throws(ProviderFailure) -> RefreshedSubject {
        .absent
    }

    func verifyLogoutToken(
        _ token: Secret, mayFetchKeys: @escaping @Sendable () -> Bool
    ) async throws(ProviderFailure) -> LogoutNotice {
        guard token.reveal().hasPrefix("good") else { throw .identityRejected(detail: "bad") }
        return LogoutNotice(
            subject: "user-1", sid: nil, clients: profile.clients.map(\.name), tokenID: token.reveal(),
            rememberUntil: TestClock.start.advanced(by: .seconds(600)))
    }
}
