import Synchronization

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

    /// The time for which its calls are refused here because it does not answer; nil when they are made.
    var refusesCallsFor: Duration? { get }

    /// The number of its calls that may be under way at a time.
    var places: Int { get }

    /// Returns the URL to open for a login; may call discovery and PAR.
    func startAuthorization(
        _ request: AuthorizationRequest, by deadline: Duration
    ) async throws(ProviderFailure) -> AuthorizationStart
}

/// Knows which addresses are an authorization server's own: no proof for anybody else is made for them.
package protocol EndpointOwning: ProviderClient {
    /// Returns whether an address is one that the broker itself proves its key at; throws where nobody can know now.
    func owns(_ address: ProofAddress) async throws(ProviderFailure) -> Bool
}

/// Shows certificates of ours to its provider (RFC 8705).
package protocol CertificateShowing: ProviderClient {
    /// Returns the thumbprint of the certificate that a client shows now; nil where it shows none.
    func certificate(of client: ClientName) -> String?
}

extension ProviderClient {
    package var callbackHints: [String] { [] }
    package var refusesCallsFor: Duration? { nil }
    package var places: Int { 256 }
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

/// Exchanges a session's access token for one of another API (RFC 8693).
package protocol TokenExchanging: TokenRefreshing {
    /// Makes one exchange call; the answer's refresh token is of another grant, and is no part of the result.
    func exchange(_ request: TargetExchange, by deadline: Duration) async throws(ProviderFailure) -> TokenSet
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

    /// The lifetime of a session whose cookie names no end.
    var sessionLifetime: Duration { get }

    /// Ends a Zephr session.
    func logOut(_ session: Secret, by deadline: Duration) async throws(ProviderFailure)
}

/// A login's request to the provider's authorization endpoint.
package struct AuthorizationRequest: Sendable {
    package var client: ClientName
    package var redirectURI: RedirectURI
    package var state: Secret
    /// The OpenID nonce, when the client uses one.
    package var nonce: Secret?
    /// The S256 challenge, unless the client says `pkce: unsupported`.
    package var codeChallenge: String?
    package var scope: [String]
    /// Allow-listed extras, none of them a name that the broker sets (SEC-07).
    package var parameters: [(name: String, value: String)]
    /// Parameters that a step-up demands, which go before the configuration's own.
    package var demanded: [(name: String, value: String)]
    /// Zephr's social provider.
    package var socialProvider: String?
    /// The proofs of the key that the code and its tokens are to be bound to.
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

/// A started authorization: where the app goes, and what the callback will have to show.
package struct AuthorizationStart: Sendable {
    /// The URL to open.
    ///
    /// It carries the state, so it is never logged.
    package let url: Secret
    package let issuer: IssuerExpectation
    /// The request's demands on the sign-in, fixed or by the app.
    package let demands: SignInDemands
    /// The URL's lifetime, where the provider says it (RFC 9126's `expires_in`).
    package let lifetime: Duration?
    /// The same request as a URL that the provider's own app opens, where there is one (Clever).
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

/// One code to redeem.
package struct CodeGrant: Sendable {
    /// The redirect URI's form in the token request; native SDK codes go without one.
    package enum RedirectParameter: Sendable, Equatable { case uri(String), empty, omitted }

    package var client: ClientName
    package var code: Secret
    package var redirect: RedirectParameter
    /// The PKCE verifier, the broker's or the app's.
    package var verifier: Secret?
    /// A key that stays the same for a retry of this very call (Cloudentity's `X-Idempotency-Key`).
    package var idempotencyKey: String
    /// The proofs of the key that the tokens have to be bound to; nil where they are bound to none.
    package var proof: ProofMaker?
    /// Whether the authorization request was the broker's, which names the client's resources (RFC 8707); an app's own may
    /// have named none, and a server refuses what was not asked for there.
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
    /// The nonce that the id_token has to have.
    ///
    /// `rawOrSHA256` is for native SDKs, which may hash it (hexadecimal or base64url); `absent` refuses a token that has
    /// one, because nobody said which it should be.
    package enum NonceExpectation: Sendable { case none, absent, exactly(Secret), rawOrSHA256(Secret) }

    package var client: ClientName
    package var nonce: NonceExpectation
    /// The callback's further parameters; hints that a provider may confirm by a call, and nothing more (SEC-16).
    package var callback: [(name: String, value: String)]
    /// The scope that an answer without one stands for (RFC 6749 section 5.1); empty where nothing may be assumed.
    package var requestedScope: [String]
    /// The authorization request's demands on the sign-in; nil where there was none (native codes, imports).
    package var demands: SignInDemands?
    /// Whether it is a session's step-up: class and age of the sign-in are then judged where the session is known.
    package var isStepUp = false
    /// The proofs of the key that the access token is bound to; nil where it is bound to none.
    package var proof: ProofMaker?
    /// The one further call for a token that a token call has just returned; nil for a token that an app brought.
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

/// The one further identity call of a sign-in.
///
/// Some providers know a token only a moment after they gave it (decision 80). Reads that are repeated for other reasons share it.
package final class SecondRead: Sendable {
    private let isLeft = Atomic(true)

    package init() {}

    /// Takes the call; false once it was taken.
    package func take() -> Bool { isLeft.exchange(false, ordering: .relaxed) }
}

/// The user who signed in, as the provider confirmed it.
package struct ProviderIdentity: Sendable {
    /// The provider's immutable id of the user (for Clover: of the merchant).
    package var subject: String
    /// Confirmed claims: strings, numbers, booleans and arrays of strings, in order.
    package var claims: [(name: String, value: JSONValue)]
    /// The members that stood only in the callback (SEC-16).
    package var unverified: [(name: String, value: JSONValue)]
    /// The OpenID provider's session id, for Back-Channel Logout.
    package var sid: String?
    /// Whether the id_token has a `sid` that nothing can be looked up by.
    package var sidIsUnusable = false
    /// The manner and time of the user's sign-in at the provider.
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

/// An id_token that an app has from a native SDK, and what it is held against.
package struct HandedIDToken: Sendable {
    package let client: ClientName
    package let token: Secret
    /// The app's nonce; the token has it raw or as SHA-256.
    package let nonce: Secret

    package init(client: ClientName, token: Secret, nonce: Secret) {
        self.client = client
        self.token = token
        self.nonce = nonce
    }
}

/// Tokens of an app's to take over.
package struct ImportRequest: Sendable {
    package var client: ClientName
    package var tokens: ImportedTokens
    /// A key that stays the same for a retry of this very import.
    package var idempotencyKey: String

    package init(client: ClientName, tokens: ImportedTokens, idempotencyKey: String) {
        self.client = client
        self.tokens = tokens
        self.idempotencyKey = idempotencyKey
    }
}

/// One refresh to make.
package struct RefreshRequest: Sendable {
    package var client: ClientName
    package var refreshToken: Secret
    /// The access token beside it, for providers that want it.
    package var accessToken: Secret
    /// Derived from handle and token version: the same for every retry of this refresh, so that a provider that replays
    /// (Cloudentity) answers a lost call again.
    package var idempotencyKey: String
    /// Whether this is the one confirming retry after a lost answer; providers with a recovery call (Clover) use it.
    package var recovering: Bool
    /// The proofs of the key that the tokens are bound to, or are to be bound to; nil where they are bound to none.
    package var proof: ProofMaker?
    /// Whether they are bound already: an access token that is not is no answer then, and is withheld.
    package var isBound = false
    /// Whether the access token is bound to a certificate: the next one is, to the one that is shown for it.
    package var isCertified = false
    /// Whether the provider has given nonces before, so that the refresh token should not be sent without one.
    package var usesNonces = false
    /// The last sending, for the one that confirms it.
    package var sending = RefreshSending()
    /// The API that the access token is to be for; nil for the session's own.
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

/// An access token of a session to exchange for one of a target.
package struct TargetExchange: Sendable {
    package var client: ClientName
    /// The session's own access token (`subject_token`).
    package var subjectToken: Secret
    package var target: TokenTarget
    /// The proofs of the key that the subject token is bound to, and the new one is to be; nil where it is bound to none.
    package var proof: ProofMaker?
    /// Whether the subject token is bound to a certificate.
    package var isCertified = false
    /// Whether the provider has given nonces before.
    package var usesNonces = false

    package init(client: ClientName, subjectToken: Secret, target: TokenTarget, proof: ProofMaker? = nil) {
        self.client = client
        self.subjectToken = subjectToken
        self.target = target
        self.proof = proof
    }
}

/// Says whose a refreshed id_token is.
package enum RefreshedSubject: Sendable, Equatable {
    /// The answer had no id_token.
    case absent
    /// It had one that verified, for this subject.
    case subject(String)
    /// It had one that did not verify, and why; its claims are dropped (SEC-59).
    /// `subject` is whose it says it is, where the provider did sign it.
    case unverifiable(String, subject: String? = nil)
    /// It had one whose signature verified and that is not this session's, and why (OpenID Connect Core 12.2).
    case foreign(String)
}

/// The subject and session that a verified logout token names; at least one of the two is there.
package struct LogoutNotice: Sendable, Equatable {
    package let subject: String?
    package let sid: String?
    /// The clients that its `aud` names.
    package let clients: [ClientName]
    /// The token's id, for the replay memory (SEC-67).
    package let tokenID: String
    /// The time until which the id has to be remembered.
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
