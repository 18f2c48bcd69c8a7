/// A session as its owner may see it (the session object in openapi.yaml).
///
/// The view never contains tokens (SEC-52).
package struct SessionView: Sendable {
    package var handle: SessionHandle
    package var provider: ProviderName
    package var client: ClientName
    package var subject: String
    package var identity: [(name: String, value: JSONValue)]
    package var unverified: [(name: String, value: JSONValue)]
    package var scope: [String]
    package var createdAt: WallTime
    package var lastUsedAt: WallTime
    package var idleExpiresAt: WallTime
    package var expiresAt: WallTime
    package var tokensExpireAt: WallTime?
    package var refreshable: Bool
    package var device: String?
    /// The way and the time in which the user signed in.
    package var signIn: SignInFacts
    package var binding: SessionBinding?
    /// The session's parent, kind and name; nil for a top-level session.
    package var child: ChildFacts?
    /// The presence key, if the session has one and it was opened for this view.
    package var presence: SessionPresence?
    /// The session's version, which grows with each step-up and with its presence key.
    ///
    /// Of two views, the one with the higher version is newer.
    package var version: Int64

    package init(
        handle: SessionHandle, provider: ProviderName, client: ClientName, subject: String,
        identity: [(name: String, value: JSONValue)], unverified: [(name: String, value: JSONValue)], scope: [String],
        createdAt: WallTime, lastUsedAt: WallTime, idleExpiresAt: WallTime, expiresAt: WallTime,
        tokensExpireAt: WallTime?, refreshable: Bool, device: String?, binding: SessionBinding?,
        child: ChildFacts? = nil, signIn: SignInFacts = SignInFacts(), version: Int64 = 1
    ) {
        self.handle = handle
        self.provider = provider
        self.client = client
        self.subject = subject
        self.identity = identity
        self.unverified = unverified
        self.scope = scope
        self.createdAt = createdAt
        self.lastUsedAt = lastUsedAt
        self.idleExpiresAt = idleExpiresAt
        self.expiresAt = expiresAt
        self.tokensExpireAt = tokensExpireAt
        self.refreshable = refreshable
        self.device = device
        self.binding = binding
        self.child = child
        self.signIn = signIn
        self.version = version
    }
}

/// The result of a forwarded code or of a finished registration.
package enum SignInOutcome: Sendable {
    case signedIn(SignedIn)
    case registrationRequired(RegistrationView)
    /// The presented session after its step-up.
    case steppedUp(SteppedUp)
}

/// A new session with the secret that opens it.
package struct SignedIn: Sendable {
    package let session: SessionView
    package let token: Secret
    package let transport: ClientProfile.Transport
    /// The first pass of a session that belongs to a key.
    package let pass: GrantedPass?
    /// The latest time at which the session may end, however often it is refreshed.
    ///
    /// The cookie lives until then, because refreshes do not change it.
    package let endsAtLatest: WallTime

    init(
        _ live: LiveSession, token: Secret, transport: ClientProfile.Transport, _ context: BrokerContext
    ) throws(BrokerProblem) {
        pass = GrantedPass(for: live, context)
        session = try ResumeSession(context).view(of: live)
        self.token = token
        self.transport = transport
        endsAtLatest =
            live.row.refreshable
            ? live.row.createdAt.advanced(by: live.facts.lifetimes.absolute) : live.row.expiresAt
    }

    /// Creates the result of a new child.
    ///
    /// The child's token is a bearer token, even if its client's transport is a cookie. The child gets a pass once it has
    /// proved its key.
    init(child: LiveSession, token: Secret) {
        pass = nil
        session = child.view
        self.token = token
        transport = .bearer
        endsAtLatest = child.view.expiresAt
    }
}

/// A partial registration as the app sees it, in the 202 of `POST /v1/sessions`.
package struct RegistrationView: Sendable {
    package let provider: ProviderName
    package let stateKey: Secret
    package let identifier: String?
    package let expiresAt: WallTime
    package let fields: [RegistrationField]

    package init(
        provider: ProviderName, stateKey: Secret, identifier: String?, expiresAt: WallTime, fields: [RegistrationField]
    ) {
        self.provider = provider
        self.stateKey = stateKey
        self.identifier = identifier
        self.expiresAt = expiresAt
        self.fields = fields
    }
}
