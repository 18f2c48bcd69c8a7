/// A provider as the use cases call it.
///
/// Every provider starts logins; what else it can do is a further protocol, and a capability it lacks is a missing
/// conformance, not a stub.
///
/// Implementations bound every call (5 s to connect, 15 s in all with the body and never past the deadline that came
/// along, 1 MiB), follow no redirect, limit their concurrency and break the circuit per provider; they never log or
/// throw a secret. A deadline is a monotonic moment. Documents that all callers share (metadata, keys, a schema) are
/// fetched by nobody's deadline: their calls have limits of their own.
package protocol ProviderClient: Sendable {
    var profile: ProviderProfile { get }

    /// The callback parameters that it reads by itself, beside those that a client's configuration keeps.
    var callbackHints: [String] { get }

    /// How long its calls are refused here because it does not answer; nil when they are made.
    var refusesCallsFor: Duration? { get }

    /// Returns the URL to open for a login; may call discovery and PAR.
    func startAuthorization(
        _ request: AuthorizationRequest, by deadline: Duration
    ) async throws(ProviderFailure) -> AuthorizationStart
}

extension ProviderClient {
    package var callbackHints: [String] { [] }
    package var refusesCallsFor: Duration? { nil }
}

/// Redeems codes: every kind but Zephr.
package protocol CodeExchanging: ProviderClient {
    /// Returns what the callback's `iss` has to be (RFC 9207).
    func issuerExpectation() async throws(ProviderFailure) -> IssuerExpectation

    /// Returns what is wrong with a callback's further parameters, known before its code is spent; nil when nothing is.
    func callbackFault(_ parameters: [(name: String, value: String)], client: ClientName) -> String?

    /// Redeems a code with one token call (never retried here).
    ///
    /// The result names a `refusal` where the answer cannot be used and its tokens are to be revoked.
    func redeem(_ grant: CodeGrant, by deadline: Duration) async throws(ProviderFailure) -> TokenSet

    /// Verifies the id_token and fetches the identity that the configuration names.
    func identify(
        _ tokens: TokenSet, _ context: IdentityContext, by deadline: Duration
    ) async throws(ProviderFailure) -> ProviderIdentity
}

extension CodeExchanging {
    package func callbackFault(_ parameters: [(name: String, value: String)], client: ClientName) -> String? { nil }
}

/// Refreshes tokens (RFC 6749 section 6 and its dialects).
package protocol TokenRefreshing: ProviderClient {
    /// Makes one refresh call. A member that the answer leaves out (refresh token, scope) is nil in the result.
    func refresh(_ request: RefreshRequest, by deadline: Duration) async throws(ProviderFailure) -> TokenSet

    /// Checks a refreshed id_token, if there is one, against the session's issuer and subject (SEC-59); `before` is the
    /// set that was refreshed, with the login's id_token.
    func subjectOfRefreshed(
        _ tokens: TokenSet, before: TokenSet, client: ClientName
    ) async throws(ProviderFailure) -> RefreshedSubject
}

/// Ends a grant at the provider (RFC 7009 and its dialects).
package protocol TokenRevoking: ProviderClient {
    /// Revokes refresh and access token; an unknown token counts as revoked.
    func revoke(_ tokens: TokenSet, client: ClientName, by deadline: Duration) async throws(ProviderFailure)
}

/// Ends the user's own session at the provider (OpenID Connect RP-Initiated Logout 1.0; decision 13).
package protocol SessionEnding: ProviderClient {
    /// Shows the id_token to the provider's log-out endpoint; false when there is nothing to call or to show.
    func endSession(
        _ tokens: TokenSet, client: ClientName, by deadline: Duration
    ) async throws(ProviderFailure) -> Bool

    /// Returns the provider's log-out page for the user's browser, with no token in it; nil when it has none.
    ///
    /// `state` goes along where the page sends the browser back to the app.
    func logOutPage(_ tokens: TokenSet, client: ClientName, state: Secret) async throws(ProviderFailure) -> Secret?
}

/// Imports tokens that an app already holds (Clover's PartialOAuth, Clever's SDK 1.x).
package protocol TokenImporting: CodeExchanging {
    /// Returns which member of `tokens` this provider misses or does not take; nil when they may be tried.
    func importFault(_ tokens: ImportedTokens) -> FieldFault?

    /// Returns the tokens to keep, once the provider has shown that those of the app are for this very client.
    ///
    /// Throws `rejected` for tokens that are not, or no more.
    func takeOver(_ request: ImportRequest, by deadline: Duration) async throws(ProviderFailure) -> TokenSet

    /// Fetches the identity of tokens that were taken over: there is no id_token with them.
    func identifyImported(
        _ tokens: TokenSet, _ context: IdentityContext, by deadline: Duration
    ) async throws(ProviderFailure) -> ProviderIdentity
}

/// Takes id_tokens that a native SDK gave the app (Google's Credential Manager, Sign in with Apple, Facebook's Limited
/// Login).
package protocol IDTokenTaking: ProviderClient {
    /// Whether there are keys and an issuer to verify a client's id_tokens with.
    func takesIDTokens(of client: ClientName) -> Bool

    /// Verifies an id_token and returns whose it is; the provider is called for its keys alone.
    ///
    /// `mayFetchKeys` is asked before newer keys are fetched for a token that no held key fits. Throws
    /// `identityRejected` for any fault in the token.
    func identify(
        _ token: HandedIDToken, mayFetchKeys: @escaping @Sendable () -> Bool
    ) async throws(ProviderFailure) -> ProviderIdentity
}

/// Verifies OIDC Back-Channel Logout tokens (SEC-66).
package protocol LogoutTokenVerifying: ProviderClient {
    /// Returns what a logout token names; throws `identityRejected` for any fault in it.
    ///
    /// `mayFetchKeys` is asked before newer keys are fetched for a token that no held key fits.
    func verifyLogoutToken(
        _ token: Secret, mayFetchKeys: @escaping @Sendable () -> Bool
    ) async throws(ProviderFailure) -> LogoutNotice
}

/// Signs in by sessions of its own and completes partial registrations by a state key (Zephr, flow E).
package protocol PartialRegistering: ProviderClient {
    /// Asks whose a Zephr session is (`GET /blaize/account`); `rejected` when it is nobody's.
    func account(of session: Secret, by deadline: Duration) async throws(ProviderFailure) -> ProviderIdentity

    /// Completes a registration with one call that is never retried.
    func register(
        _ request: RegistrationRequest, by deadline: Duration
    ) async throws(ProviderFailure) -> RegistrationOutcome

    /// Returns the attributes a registration needs, from the configuration or the provider's schema.
    func registrationFields() async throws(ProviderFailure) -> [RegistrationField]

    /// How long a session lives whose cookie names no end.
    var sessionLifetime: Duration { get }

    /// Ends a Zephr session.
    func logOut(_ session: Secret, by deadline: Duration) async throws(ProviderFailure)
}
