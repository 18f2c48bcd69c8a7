import Synchronization

/// A provider, with the calls that the use cases make.
///
/// Every provider can start logins. Each further ability has a protocol of its own, to which only providers with the ability
/// conform.
///
/// Implementations limit every call to 5 s for the connection, 15 s in all, the given deadline and a body of 1 MiB. They follow
/// no redirects, limit their concurrency, and have a circuit breaker for each provider. Secrets are never logged or thrown. A
/// deadline is a monotonic moment.
///
/// Metadata, keys and a schema are shared by all callers. They are fetched with limits of their own, so that a caller's
/// deadline does not stop the fetch.
package protocol ProviderClient: Sendable {
    var profile: ProviderProfile { get }

    /// The callback parameters that the provider itself needs, in addition to those in a client's configuration.
    var callbackHints: [String] { get }

    /// The time for which the open circuit breaker refuses calls to the provider; nil if calls are made.
    var refusesCallsFor: Duration? { get }

    /// The number of calls to the provider that may be in progress at a time.
    var places: Int { get }

    /// Returns the URL that the app opens for a login; may call the provider for discovery and PAR.
    func startAuthorization(
        _ request: AuthorizationRequest, by deadline: Duration
    ) async throws(ProviderFailure) -> AuthorizationStart
}

/// A provider that knows the addresses of its own endpoints.
///
/// The broker never makes proofs for these addresses on behalf of backends.
package protocol EndpointOwning: ProviderClient {
    /// Returns whether an address belongs to the provider's own endpoints; throws if this is unknown now.
    func owns(_ address: ProofAddress) async throws(ProviderFailure) -> Bool
}

/// A provider to which the broker shows client certificates (RFC 8705).
package protocol CertificateShowing: ProviderClient {
    /// Returns the thumbprint of the certificate that the broker shows for a client now, or nil.
    func certificate(of client: ClientName) -> String?
}

extension ProviderClient {
    package var callbackHints: [String] { [] }
    package var refusesCallsFor: Duration? { nil }
    package var places: Int { 256 }
}

/// A provider that redeems codes; every kind except Zephr does.
package protocol CodeExchanging: ProviderClient {
    /// Returns the rule for the `iss` in callbacks (RFC 9207).
    func issuerExpectation() async throws(ProviderFailure) -> IssuerExpectation

    /// Checks a callback's further parameters before its code is spent; returns the fault, or nil.
    func callbackFault(_ parameters: [(name: String, value: String)], client: ClientName) -> String?

    /// Redeems a code with one token call, which the implementation never repeats, except for another DPoP nonce.
    ///
    /// If the answer is unusable, the result names a `refusal`, and its tokens have to be revoked.
    func redeem(_ grant: CodeGrant, by deadline: Duration) async throws(ProviderFailure) -> TokenSet

    /// Verifies the id_token and fetches the user's identity from the sources in the configuration.
    func identify(
        _ tokens: TokenSet, _ context: IdentityContext, by deadline: Duration
    ) async throws(ProviderFailure) -> ProviderIdentity
}

extension CodeExchanging {
    package func callbackFault(_ parameters: [(name: String, value: String)], client: ClientName) -> String? { nil }
}

/// A provider that refreshes tokens (RFC 6749 section 6 and its dialects).
package protocol TokenRefreshing: ProviderClient {
    /// Makes one refresh call. A member that the answer leaves out (refresh token, scope) is nil in the result.
    func refresh(_ request: RefreshRequest, by deadline: Duration) async throws(ProviderFailure) -> TokenSet

    /// Checks a refreshed id_token, if there is one, against the session's issuer and subject (SEC-59). `before` is the set
    /// that was refreshed, with the login's id_token.
    func subjectOfRefreshed(
        _ tokens: TokenSet, before: TokenSet, client: ClientName
    ) async throws(ProviderFailure) -> RefreshedSubject
}

/// A provider that exchanges a session's access token for a token of another API (RFC 8693).
package protocol TokenExchanging: TokenRefreshing {
    /// Makes one exchange call. A refresh token in the answer belongs to another grant, and is left out of the result.
    func exchange(_ request: TargetExchange, by deadline: Duration) async throws(ProviderFailure) -> TokenSet
}

/// A provider that can end a grant (RFC 7009 and its dialects).
package protocol TokenRevoking: ProviderClient {
    /// Revokes the refresh and the access token; a token that the provider does not know counts as revoked.
    func revoke(_ tokens: TokenSet, client: ClientName, by deadline: Duration) async throws(ProviderFailure)
}

/// A provider that can end the user's own session there (OpenID Connect RP-Initiated Logout 1.0; decision 13).
package protocol SessionEnding: ProviderClient {
    /// Sends the id_token to the provider's log-out endpoint. Returns false if the endpoint or the id_token is missing.
    func endSession(
        _ tokens: TokenSet, client: ClientName, by deadline: Duration
    ) async throws(ProviderFailure) -> Bool

    /// Returns the provider's log-out page for the user's browser, without tokens in its address; nil if the provider has no
    /// such page.
    ///
    /// `state` is added if the page sends the browser back to the app.
    func logOutPage(_ tokens: TokenSet, client: ClientName, state: Secret) async throws(ProviderFailure) -> Secret?
}

/// A provider for which the broker imports tokens that an app already has (Clover's PartialOAuth, Clever's SDK 1.x).
package protocol TokenImporting: CodeExchanging {
    /// Returns the member of `tokens` that is missing or refused; nil if the import may be tried.
    func importFault(_ tokens: ImportedTokens) -> FieldFault?

    /// Returns the tokens to store, after the provider has confirmed that the app's tokens belong to this client.
    ///
    /// Throws `rejected` for dead tokens and for tokens of another client.
    func takeOver(_ request: ImportRequest, by deadline: Duration) async throws(ProviderFailure) -> TokenSet

    /// Fetches the identity for imported tokens, which have no id_token.
    func identifyImported(
        _ tokens: TokenSet, _ context: IdentityContext, by deadline: Duration
    ) async throws(ProviderFailure) -> ProviderIdentity
}

/// A provider whose id_tokens from native SDKs the broker accepts (Google's Credential Manager, Sign in with Apple, Facebook's
/// Limited Login).
package protocol IDTokenTaking: ProviderClient {
    /// Returns whether the keys and the issuer for verifying a client's id_tokens are known.
    func takesIDTokens(of client: ClientName) -> Bool

    /// Verifies an id_token and returns its user. The only possible call to the provider fetches its keys.
    ///
    /// `mayFetchKeys` decides whether newer keys are fetched for a token that fits no held key. Throws `identityRejected` for
    /// any fault in the token.
    func identify(
        _ token: HandedIDToken, mayFetchKeys: @escaping @Sendable () -> Bool
    ) async throws(ProviderFailure) -> ProviderIdentity
}

/// A provider whose OIDC Back-Channel Logout tokens the broker verifies (SEC-66).
package protocol LogoutTokenVerifying: ProviderClient {
    /// Returns the session and user that a logout token names; throws `identityRejected` for any fault in it.
    ///
    /// `mayFetchKeys` decides whether newer keys are fetched for a token that fits no held key.
    func verifyLogoutToken(
        _ token: Secret, mayFetchKeys: @escaping @Sendable () -> Bool
    ) async throws(ProviderFailure) -> LogoutNotice
}

/// A provider with sessions of its own, and with registrations that the app completes by a state key (Zephr, flow E).
package protocol PartialRegistering: ProviderClient {
    /// Returns the user of a Zephr session (`GET /blaize/account`); throws `rejected` if the session is unknown.
    func account(of session: Secret, by deadline: Duration) async throws(ProviderFailure) -> ProviderIdentity

    /// Completes a registration with one call, which is never repeated.
    func register(
        _ request: RegistrationRequest, by deadline: Duration
    ) async throws(ProviderFailure) -> RegistrationOutcome

    /// Returns the attributes that a registration needs, from the configuration or the provider's schema.
    func registrationFields() async throws(ProviderFailure) -> [RegistrationField]

    /// The assumed lifetime of a Zephr session whose own end is unknown.
    var sessionLifetime: Duration { get }

    /// Ends a Zephr session.
    func logOut(_ session: Secret, by deadline: Duration) async throws(ProviderFailure)
}

/// A login's request to the authorization endpoint of the provider.
package struct AuthorizationRequest: Sendable {
    package var client: ClientName
    package var redirectURI: RedirectURI
    package var state: Secret
    /// The OpenID nonce, if the client uses one.
    package var nonce: Secret?
    /// The S256 challenge, unless the client has `pkce: unsupported`.
    package var codeChallenge: String?
    package var scope: [String]
    /// Extra parameters that the client's allow-list permits.
    ///
    /// The names that the broker itself sets are never among them (SEC-07).
    package var parameters: [(name: String, value: String)]
    /// Parameters that a step-up demands; they override configured parameters of the same name.
    package var demanded: [(name: String, value: String)]
    /// The social provider for a Zephr login.
    package var socialProvider: String?
    /// The maker of proofs for the key that the code and its tokens will be bound to; nil for unbound ones.
    package var proof: ProofMaker?

    package init(
        client: ClientName, redirectURI: RedirectURI, state: Secret, nonce: Secret?, codeChallenge: String?,
        scope: [String], parameters: [(name: String, value: String)] = [],
        demanded: [(name: String, value: String)] = [], socialProvider: String? = nil, proof: ProofMaker? = nil
    ) {
        self.demanded = demanded
        self.client = client
        self.redirectURI = redirectURI
        self.state = state
        self.nonce = nonce
        self.codeChallenge = codeChallenge
        self.scope = scope
        self.parameters = parameters
        self.socialProvider = socialProvider
        self.proof = proof
    }
}

/// A started authorization, with the URL for the app and the requirements on the callback.
package struct AuthorizationStart: Sendable {
    /// The URL that the app opens.
    ///
    /// The URL contains the state, so it is never logged.
    package let url: Secret
    package let issuer: IssuerExpectation
    /// The demands on the sign-in that the request contains, from the configuration or from the app.
    package let demands: SignInDemands
    /// The URL's lifetime, if the provider names it (RFC 9126's `expires_in`).
    package let lifetime: Duration?
    /// A URL for the same request that opens the provider's own app (Clever); nil if there is no such URL.
    package var appURL: Secret?

    package init(
        url: Secret, issuer: IssuerExpectation, demands: SignInDemands = SignInDemands(), lifetime: Duration? = nil
    ) {
        self.url = url
        self.issuer = issuer
        self.demands = demands
        self.lifetime = lifetime
    }
}

/// A code to redeem, with the values for the token call.
package struct CodeGrant: Sendable {
    /// The form of the redirect URI in the token request; codes of native SDKs come without one.
    package enum RedirectParameter: Sendable, Equatable { case uri(String), empty, omitted }

    package var client: ClientName
    package var code: Secret
    package var redirect: RedirectParameter
    /// The PKCE verifier, the broker's or the app's.
    package var verifier: Secret?
    /// The idempotency key, which is the same for each retry of this call (Cloudentity's `X-Idempotency-Key`).
    package var idempotencyKey: String
    /// The maker of proofs for the key that the tokens have to be bound to; nil for unbound tokens.
    package var proof: ProofMaker?
    /// Whether the broker itself made the authorization request, which then contains the client's resources (RFC 8707).
    ///
    /// A request that the app made may lack the resources. A server refuses a resource in the token call that was missing in
    /// the authorization request.
    package var isOfOwnRequest = false

    package init(
        client: ClientName, code: Secret, redirect: RedirectParameter, verifier: Secret?, idempotencyKey: String,
        proof: ProofMaker? = nil
    ) {
        self.proof = proof
        self.client = client
        self.code = code
        self.redirect = redirect
        self.verifier = verifier
        self.idempotencyKey = idempotencyKey
    }
}

/// The values that an identity is checked against.
package struct IdentityContext: Sendable {
    /// The requirement on the id_token's nonce.
    ///
    /// `rawOrSHA256` is for native SDKs, which may hash the app's nonce (hexadecimal or base64url). `absent` refuses a token
    /// with a nonce, because the right value is unknown. `none` ignores the nonce.
    package enum NonceExpectation: Sendable { case none, absent, exactly(Secret), rawOrSHA256(Secret) }

    package var client: ClientName
    package var nonce: NonceExpectation
    /// The callback's further parameters, which a provider uses only as hints and may confirm by a call (SEC-16).
    package var callback: [(name: String, value: String)]
    /// The scope that is assumed if an answer omits the scope (RFC 6749 section 5.1); if empty, no scope is assumed.
    package var requestedScope: [String]
    /// The demands on the sign-in in the authorization request; nil for native codes and imports, which have no such request.
    package var demands: SignInDemands?
    /// Whether the sign-in steps up an existing session.
    ///
    /// The class and age of such a sign-in are checked later, when the session is known.
    package var isStepUp = false
    /// The maker of proofs for the key that the access token is bound to; nil for an unbound token.
    package var proof: ProofMaker?
    /// The permission for one further identity call for a token that was just issued; nil for a token that an app brought.
    package var secondRead: SecondRead?

    package init(
        client: ClientName, nonce: NonceExpectation, callback: [(name: String, value: String)],
        requestedScope: [String], demands: SignInDemands? = nil
    ) {
        self.client = client
        self.nonce = nonce
        self.callback = callback
        self.requestedScope = requestedScope
        self.demands = demands
    }
}

/// The permission for one further identity call in a sign-in.
///
/// Some providers recognise a token only a moment after they issued it (decision 80). All reads of one sign-in share the
/// permission, so at most one of them is repeated for this reason.
package final class SecondRead: Sendable {
    private let isLeft = Atomic(true)

    package init() {}

    /// Uses the permission; returns false if it was already used.
    package func take() -> Bool { isLeft.exchange(false, ordering: .relaxed) }
}

/// The user of a sign-in, as the provider confirmed it.
package struct ProviderIdentity: Sendable {
    /// The provider's immutable id of the user, or for Clover of the merchant.
    package var subject: String
    /// The confirmed claims, in order: strings, numbers, booleans and arrays of strings.
    package var claims: [(name: String, value: JSONValue)]
    /// The claims that were only in the callback, so the provider has not confirmed them (SEC-16).
    package var unverified: [(name: String, value: JSONValue)]
    /// The OpenID provider's session id, for Back-Channel Logout.
    package var sid: String?
    /// Whether the id_token has a `sid` that cannot be used for lookups.
    package var sidIsUnusable = false
    /// The way and the time in which the user signed in at the provider.
    package var signIn: SignInFacts

    package init(
        subject: String, claims: [(name: String, value: JSONValue)] = [],
        unverified: [(name: String, value: JSONValue)] = [], sid: String? = nil, signIn: SignInFacts = SignInFacts()
    ) {
        self.subject = subject
        self.claims = claims
        self.unverified = unverified
        self.sid = sid
        self.signIn = signIn
    }
}

/// An id_token that an app got from a native SDK, with the values that the token must match.
package struct HandedIDToken: Sendable {
    package let client: ClientName
    package let token: Secret
    /// The app's nonce; the token contains it as it is or as SHA-256.
    package let nonce: Secret

    package init(client: ClientName, token: Secret, nonce: Secret) {
        self.client = client
        self.token = token
        self.nonce = nonce
    }
}

/// An app's request to import tokens that it has.
package struct ImportRequest: Sendable {
    package var client: ClientName
    package var tokens: ImportedTokens
    /// The idempotency key, which is the same for each retry of this import.
    package var idempotencyKey: String

    package init(client: ClientName, tokens: ImportedTokens, idempotencyKey: String) {
        self.client = client
        self.tokens = tokens
        self.idempotencyKey = idempotencyKey
    }
}

/// One refresh call to make.
package struct RefreshRequest: Sendable {
    package var client: ClientName
    package var refreshToken: Secret
    /// The access token that belongs to the refresh token, for providers that require it.
    package var accessToken: Secret
    /// The idempotency key, derived from handle and token version, so that it is the same for every retry of this refresh.
    ///
    /// A provider that replays answers (Cloudentity) then repeats a lost answer.
    package var idempotencyKey: String
    /// Whether this call repeats an earlier one whose answer was lost, to find out its result.
    ///
    /// A provider with a recovery call (Clover) uses that call.
    package var recovering: Bool
    /// The maker of proofs for the key that the tokens are or will be bound to; nil for unbound tokens.
    package var proof: ProofMaker?
    /// Whether the tokens were bound to the key before this call.
    ///
    /// If so, an unbound access token in the answer is not used.
    package var isBound = false
    /// Whether the access token is bound to a certificate.
    ///
    /// If so, the new token is bound to the certificate that is shown in this call.
    package var isCertified = false
    /// Whether the provider has issued nonces before.
    ///
    /// The refresh token should then be sent with a nonce.
    package var usesNonces = false
    /// The record of the last request that was sent, which a confirming call repeats.
    package var sending = RefreshSending()
    /// The API that the new access token is for; nil for a refresh of the session's own access token.
    package var target: TokenTarget?

    package init(
        client: ClientName, refreshToken: Secret, accessToken: Secret, idempotencyKey: String, recovering: Bool = false
    ) {
        self.client = client
        self.refreshToken = refreshToken
        self.accessToken = accessToken
        self.idempotencyKey = idempotencyKey
        self.recovering = recovering
    }
}

/// An exchange call to make: the session's access token for a token of another API.
package struct TargetExchange: Sendable {
    package var client: ClientName
    /// The session's own access token (`subject_token`).
    package var subjectToken: Secret
    package var target: TokenTarget
    /// The maker of proofs for the key of the subject token, which the new token will be bound to as well; nil for unbound
    /// tokens.
    package var proof: ProofMaker?
    /// Whether the subject token is bound to a certificate.
    package var isCertified = false
    /// Whether the provider has issued nonces before.
    package var usesNonces = false

    package init(client: ClientName, subjectToken: Secret, target: TokenTarget, proof: ProofMaker? = nil) {
        self.client = client
        self.subjectToken = subjectToken
        self.target = target
        self.proof = proof
    }
}

/// The result of checking a refreshed id_token.
package enum RefreshedSubject: Sendable, Equatable {
    /// The answer contained no id_token.
    case absent
    /// The id_token was verified, and names this subject.
    case subject(String)
    /// The verification of the id_token failed for the given reason, so its claims are dropped (SEC-59). `subject` is the
    /// user in the id_token, if the provider's signature is valid.
    case unverifiable(String, subject: String? = nil)
    /// The signature is valid, but for the given reason the id_token belongs to another session (OpenID Connect Core 12.2).
    case foreign(String)
}

/// The subject and the `sid` that a verified logout token names, at least one of them.
package struct LogoutNotice: Sendable, Equatable {
    package let subject: String?
    package let sid: String?
    /// The clients in the token's `aud`.
    package let clients: [ClientName]
    /// The token's id, for the replay memory (SEC-67).
    package let tokenID: String
    /// The time until which the token's id must be remembered.
    package let rememberUntil: WallTime

    package init(
        subject: String?, sid: String?, clients: [ClientName], tokenID: String, rememberUntil: WallTime
    ) {
        self.subject = subject
        self.sid = sid
        self.clients = clients
        self.tokenID = tokenID
        self.rememberUntil = rememberUntil
    }
}
