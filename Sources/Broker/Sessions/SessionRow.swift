/// A session as stored.
///
/// Its handle and times are the only plain values. When the session ends, its tokens are deleted. Its row then stays for 30
/// days as a tombstone with the reason.
package struct SessionRow: Sendable, Equatable {
    /// The SHA-256 of the session token; the row's key.
    package var tokenDigest: Digest
    package var handle: SessionHandle
    /// Index digest of (provider's issuer, subject).
    package var subject: Digest
    /// Index digest of (provider, client, subject), for the limit of sessions and for app lists.
    package var subjectAndClient: Digest
    /// Index digest of (issuer, sid), for Back-Channel Logout.
    package var sid: Digest?
    /// Index digest of the provider's name.
    package var provider: Digest
    /// Index digest of (provider, client).
    package var client: Digest
    package var createdAt: WallTime
    package var lastUsedAt: WallTime
    package var idleExpiresAt: WallTime
    package var expiresAt: WallTime
    /// The end of the access token; nil when unknown.
    package var tokenExpiresAt: WallTime?
    package var refreshable: Bool
    /// The token version, which each new token set raises.
    ///
    /// A refresh is stored only if the version is unchanged since its claim (guarantee 2).
    package var tokenVersion: Int64
    /// The number of refresh claims so far.
    package var fence: Int64
    /// Whether the subject of the stored tokens' id_token is still unchecked.
    ///
    /// Until this check, the tokens are not used.
    package var subjectUnchecked: Bool
    package var endedAt: WallTime?
    package var endReason: EndReason?
    /// `SessionFacts`, sealed as `.session` for the row `tokenDigest`.
    package var facts: Sealed
    /// `StoredTokens`, sealed as `.tokens` for the row `tokenDigest`.
    ///
    /// Nil after the session's end, and for a session from an id_token.
    package var tokens: Sealed?
    /// The parent and place of a child session; nil for a top-level session.
    package var lineage: Lineage?
    /// The presence key; nil before its registration, and after the session's end.
    package var presence: StoredPresence?
    /// The session's version, which each act of the user raises: a step-up, and registering the presence key (decision 74).
    package var version: Int64

    package init(
        tokenDigest: Digest, handle: SessionHandle, subject: Digest, subjectAndClient: Digest, sid: Digest?,
        provider: Digest, client: Digest, createdAt: WallTime, lastUsedAt: WallTime, idleExpiresAt: WallTime,
        expiresAt: WallTime, tokenExpiresAt: WallTime?, refreshable: Bool, tokenVersion: Int64 = 1, fence: Int64 = 0,
        subjectUnchecked: Bool = false, endedAt: WallTime? = nil, endReason: EndReason? = nil, facts: Sealed,
        tokens: Sealed?, lineage: Lineage? = nil, presence: StoredPresence? = nil, version: Int64 = 1
    ) {
        self.tokenDigest = tokenDigest
        self.handle = handle
        self.subject = subject
        self.subjectAndClient = subjectAndClient
        self.sid = sid
        self.provider = provider
        self.client = client
        self.createdAt = createdAt
        self.lastUsedAt = lastUsedAt
        self.idleExpiresAt = idleExpiresAt
        self.expiresAt = expiresAt
        self.tokenExpiresAt = tokenExpiresAt
        self.refreshable = refreshable
        self.tokenVersion = tokenVersion
        self.fence = fence
        self.subjectUnchecked = subjectUnchecked
        self.endedAt = endedAt
        self.endReason = endReason
        self.facts = facts
        self.tokens = tokens
        self.lineage = lineage
        self.presence = presence
        self.version = version
    }

    /// The row without its sealed facts, for a cache that already holds the opened facts.
    var withoutFacts: SessionRow {
        var row = self
        row.facts = Sealed(keyID: "", envelope: [])
        return row
    }

    /// The time at which the session lapses if it is not used again.
    var lapsesAt: WallTime { min(idleExpiresAt, expiresAt) }

    /// Returns whether the session is alive at `now`.
    package func isLive(at now: WallTime) -> Bool { endedAt == nil && now < idleExpiresAt && now < expiresAt }
}

/// Makes the row of a new session from a token set and an identity.
struct SessionMaker: Sendable {
    let context: BrokerContext

    /// Returns the new session with its row and its opened facts.
    ///
    /// The session token's digest is the row's key; the token itself is stored nowhere. `tokens` is nil for a session from an
    /// id_token.
    func make(
        tokenDigest: Digest, tokens: TokenSet?, identity: ProviderIdentity, profile: ProviderProfile,
        client: ClientProfile,
        device: String?, thumbprint: Digest?, now: WallTime
    ) throws(VaultFailure) -> LiveSession {
        let vault = context.vault
        let facts = SessionFacts(
            provider: profile.name, client: client.name, subject: identity.subject, identity: identity.claims,
            unverified: identity.unverified, scope: tokens?.scope ?? [], device: device, lifetimes: client.lifetimes,
            signIn: identity.signIn, thumbprint: thumbprint)
        let refreshable = tokens?.refreshToken != nil && context.providers[profile.name] is any TokenRefreshing
        let stored = tokens.map {
            StoredTokens(provider: profile.name, client: client.name, tokens: $0, issuedAt: now)
        }
        let row = SessionRow(
            tokenDigest: tokenDigest, handle: SessionHandle(random: try vault.random(16)),
            subject: vault.index(.subject, [profile.issuer, identity.subject]),
            subjectAndClient: vault.index(
                .subjectAndClient, [profile.name.text, client.name.text, identity.subject]),
            sid: identity.sid.map { vault.index(.sid, [profile.issuer, $0]) },
            provider: vault.index(.provider, [profile.name.text]),
            client: vault.index(.client, [profile.name.text, client.name.text]), createdAt: now, lastUsedAt: now,
            idleExpiresAt: SessionLimits.idleEnd(usedAt: now, created: now, client.lifetimes),
            expiresAt: SessionLimits.end(created: now, client.lifetimes, tokens: tokens, refreshable: refreshable),
            tokenExpiresAt: tokens?.expiresAt, refreshable: refreshable,
            facts: try vault.seal(facts.record, as: .session, row: tokenDigest),
            tokens: try stored.map { stored throws(VaultFailure) in
                try vault.seal(stored.record, as: .tokens, row: tokenDigest)
            })
        return LiveSession(row: row, facts: facts, binding: context.providers.binding(of: facts))
    }
}

/// The facts that a session row seals in addition to the tokens, for example its owner and its lifetimes.
package struct SessionFacts: Sendable {
    package var provider: ProviderName
    package var client: ClientName
    package var subject: String
    package var identity: [(name: String, value: JSONValue)]
    package var unverified: [(name: String, value: JSONValue)]
    package var scope: [String]
    package var device: String?
    /// The client's lifetimes at login, because a later change of the configuration must not end sessions unexpectedly.
    package var lifetimes: SessionLifetimes
    /// The way and the time in which the user signed in; only a sign-in sets them.
    ///
    /// The values that a refreshed id_token must repeat (SEC-59) are stored with the tokens instead.
    package var signIn: SignInFacts
    /// The thumbprint of the device key that the session belongs to (RFC 7638).
    ///
    /// It is sealed because it links the sessions of one device.
    package var thumbprint: Digest?
    /// The session's parent, kind and name; nil for a top-level session.
    package var child: ChildFacts?
    /// The version of the access token from a step-up that brought no refresh token; nil if all tokens of the session come
    /// from one sign-in.
    ///
    /// Access tokens with a higher version come from the kept refresh token, so they belong to the grant of the sign-in
    /// before the step-up.
    package var lentVersion: Int64?
    /// The last step-up; nil before the first step-up, or if an older release has sealed the facts again since then.
    package var lastStepUp: StepUpNote?

    package init(
        provider: ProviderName, client: ClientName, subject: String, identity: [(name: String, value: JSONValue)],
        unverified: [(name: String, value: JSONValue)], scope: [String], device: String?, lifetimes: SessionLifetimes,
        signIn: SignInFacts = SignInFacts(), thumbprint: Digest? = nil, child: ChildFacts? = nil
    ) {
        self.provider = provider
        self.client = client
        self.subject = subject
        self.identity = identity
        self.unverified = unverified
        self.scope = scope
        self.device = device
        self.lifetimes = lifetimes
        self.signIn = signIn
        self.thumbprint = thumbprint
        self.child = child
    }

    /// Returns a child's facts, with the user's facts taken from its parent, because a refresh may have changed them.
    func inheriting(_ parent: SessionFacts) -> SessionFacts {
        var facts = self
        facts.subject = parent.subject
        facts.identity = parent.identity
        facts.unverified = parent.unverified
        facts.scope = parent.scope
        return facts
    }
}

extension SessionFacts {
    /// The record to seal.
    package var record: [UInt8] {
        var writer = child.map { $0.begin(boundTo: thumbprint) } ?? RecordWriter(boundTo: thumbprint)
        writer.string(provider.text)
        writer.string(client.text)
        writer.string(subject)
        writer.claims(identity)
        writer.claims(unverified)
        writer.strings(scope)
        writer.optional(device)
        writer.integer(lifetimes.idle.wholeMilliseconds)
        writer.integer(lifetimes.absolute.wholeMilliseconds)
        writer.optional(signIn.authenticatedAt)
        // The previous release stops reading here, and drops the following members when it seals the facts again.
        let hasMore = lentVersion != nil || lastStepUp != nil
        if signIn.contextClass != nil || !signIn.methods.isEmpty || hasMore {
            writer.optional(signIn.contextClass)
            writer.strings(signIn.methods)
        }
        if hasMore { writer.integer(lentVersion ?? Self.lendsNothing) }
        lastStepUp?.write(to: &writer)
        return writer.bytes
    }

    /// Opens the facts of a row.
    ///
    /// Throws if this process does not know the key or the format. Throws `malformed` if the row's parent is not the parent
    /// in its facts, because such a row was changed.
    package static func open(_ row: SessionRow, _ vault: any Vault) throws -> SessionFacts {
        let facts = try SessionFacts(record: try vault.open(row.facts, as: .session, row: row.tokenDigest))
        guard facts.child?.parent == row.lineage?.parent else { throw RecordFailure.malformed }
        return facts
    }

    /// Reads an opened record.
    package init(record bytes: [UInt8]) throws(RecordFailure) {
        var (reader, thumbprint, child) = try Self.beginning(bytes)
        self.init(
            provider: ProviderName(unchecked: try reader.string()), client: ClientName(unchecked: try reader.string()),
            subject: try reader.string(), identity: try reader.claims(), unverified: try reader.claims(),
            scope: try reader.strings(), device: try reader.optionalString(),
            lifetimes: SessionLifetimes(
                idle: .milliseconds(try reader.integer()), absolute: .milliseconds(try reader.integer())),
            signIn: SignInFacts(authenticatedAt: try reader.optionalInteger()), thumbprint: thumbprint, child: child)
        guard !reader.isAtEnd else { return }
        signIn.contextClass = try reader.optionalString()
        signIn.methods = try reader.strings()
        guard !reader.isAtEnd else { return }
        let lent = try reader.integer()
        lentVersion = lent == Self.lendsNothing ? nil : lent
        lastStepUp = reader.isAtEnd ? nil : try StepUpNote(&reader)
    }

    /// The value that stands for a missing lent version if another field follows.
    private static let lendsNothing: Int64 = -1

    private static func beginning(
        _ bytes: [UInt8]
    ) throws(RecordFailure) -> (reader: RecordReader, thumbprint: Digest?, child: ChildFacts?) {
        guard bytes.first == ChildFacts.format else {
            let (reader, thumbprint) = try RecordReader.bindable(bytes)
            return (reader, thumbprint, nil)
        }
        var reader = try RecordReader(bytes, format: ChildFacts.format)
        let (child, thumbprint) = try ChildFacts.read(&reader)
        return (reader, thumbprint, child)
    }
}

/// The lifetimes of a client's sessions (SEC-40).
package struct SessionLifetimes: Sendable, Equatable {
    /// The longest time between two uses of a session.
    ///
    /// After a longer time, the session ends.
    package var idle: Duration
    /// The longest life of a session, however often it is used.
    package var absolute: Duration

    package init(idle: Duration = .seconds(30 * 86_400), absolute: Duration = .seconds(90 * 86_400)) {
        self.idle = idle
        self.absolute = absolute
    }
}

/// A token set with its provider and client, as sealed in a session or outbox row.
///
/// An outbox row outlives its session, so the record itself names the provider and client that the revocation needs.
package struct StoredTokens: Sendable {
    package var provider: ProviderName
    package var client: ClientName
    package var tokens: TokenSet
    /// The time at which the access token was issued.
    ///
    /// This time decides when a short-lived token is refreshed.
    package var issuedAt: WallTime
    /// The id_token of the last refresh, while its subject is unchecked.
    package var uncheckedIDToken: Secret?
    /// The owner of the tokens, if their exchange ended without a session row.
    package var origin: SignInOrigin?
    /// The version of the access token; nil if it is the row's token version.
    ///
    /// A refresh for another API may have raised the row's version since then.
    package var accessVersion: Int64?

    package init(
        provider: ProviderName, client: ClientName, tokens: TokenSet, issuedAt: WallTime,
        uncheckedIDToken: Secret? = nil, origin: SignInOrigin? = nil
    ) {
        self.origin = origin
        self.uncheckedIDToken = uncheckedIDToken
        self.provider = provider
        self.client = client
        self.tokens = tokens
        self.issuedAt = issuedAt
    }

    /// Returns the access token with its own version, or else with the given version of the whole set.
    func access(version: Int64) -> AccessToken {
        AccessToken(
            token: tokens.accessToken, credential: tokens.credential, key: tokens.key?.pair,
            certificate: tokens.certificate,
            expiresAt: tokens.expiresAt, scope: tokens.scope ?? [], version: accessVersion ?? version,
            issuedAt: issuedAt)
    }

    /// The pause before the next refresh, if the provider returned an unbound access token although binding is required.
    private static let pause = Duration.seconds(30)
    /// The tolerated difference of the clock of the process that made the call.
    private static let skew = Duration.seconds(60)

    /// Returns the rest of the pause after the provider left the access token unbound; nil if a refresh may be made.
    func withheldFor(at now: WallTime) -> Duration? {
        guard tokens.isWithheld else { return nil }
        let age = now.since(issuedAt)
        // Another process may have set `issuedAt`, and its clock may be ahead by up to a minute. If the clock went back
        // further, ignore the pause, because the step would prolong it.
        return age > .zero - Self.skew && age < Self.pause ? Self.pause - max(age, .zero) : nil
    }
}

extension StoredTokens {
    private static let format: UInt8 = 1
    /// The format of tokens that are bound to a key.
    ///
    /// An older release refuses this format, so it never sends the tokens without a proof, or treats them as damaged.
    private static let keyedFormat: UInt8 = 2
    /// The format of tokens that are bound to a certificate.
    ///
    /// A release without certificates would send the refresh token in vain, and some servers end the grant for such a call.
    private static let certifiedFormat: UInt8 = 3

    /// The record to seal.
    package var record: [UInt8] {
        var writer: RecordWriter
        if let key = tokens.key {
            writer = RecordWriter(format: Self.keyedFormat)
            writer.key(key.pair)
            writer.flag(key.usesNonces)
        } else if let certificate = tokens.certificate {
            writer = RecordWriter(format: Self.certifiedFormat)
            writer.string(certificate)
        } else {
            writer = RecordWriter(format: Self.format)
        }
        writer.string(provider.text)
        writer.string(client.text)
        writer.string(tokens.credential.rawValue)
        writer.string(tokens.accessToken.reveal())
        writer.optional(tokens.refreshToken)
        writer.optional(tokens.idToken.flatMap { $0.isKeptIDToken ? $0 : nil })
        writer.optional(tokens.scope) { $0.strings($1) }
        writer.optional(tokens.expiresAt)
        writer.optional(tokens.refreshExpiresAt)
        writer.integer(issuedAt.milliseconds)
        // Added later. Older releases stop reading at the time, or at the id_token.
        let unchecked = uncheckedIDToken.flatMap { $0.isKeptIDToken ? $0 : nil }
        if unchecked != nil || origin != nil { writer.optional(unchecked) }
        if let origin {
            writer.string(Base64URL.encode(origin.subject.bytes))
            writer.string(origin.sid.map { Base64URL.encode($0.bytes) } ?? "")
            // The previous release reads the owner last, so this member follows the owner and needs it.
            if let accessVersion { writer.optional(accessVersion) }
        }
        return writer.bytes
    }

    /// Reads an opened record.
    package init(record bytes: [UInt8]) throws(RecordFailure) {
        let format =
            bytes.first.flatMap { [Self.keyedFormat, Self.certifiedFormat].contains($0) ? $0 : nil } ?? Self.format
        var reader = try RecordReader(bytes, format: format)
        let key =
            format == Self.keyedFormat ? TokenKey(pair: try reader.key(), usesNonces: try reader.flag()) : nil
        let certificate = format == Self.certifiedFormat ? try reader.string() : nil
        let provider = ProviderName(unchecked: try reader.string())
        let client = ClientName(unchecked: try reader.string())
        guard let credential = TokenSet.Credential(rawValue: try reader.string()) else {
            throw .malformed
        }
        var tokens = TokenSet(
            credential: credential, accessToken: try reader.secret(), refreshToken: try reader.optionalSecret(),
            idToken: try reader.optionalSecret(), scope: try reader.flag() ? try reader.strings() : nil,
            expiresAt: try reader.optionalTime(), refreshExpiresAt: try reader.optionalTime())
        tokens.key = key
        tokens.certificate = certificate
        let issuedAt = WallTime(milliseconds: try reader.integer())
        let unchecked = reader.isAtEnd ? nil : try reader.optionalSecret()
        self.init(
            provider: provider, client: client, tokens: tokens, issuedAt: issuedAt, uncheckedIDToken: unchecked,
            origin: reader.isAtEnd ? nil : try Self.origin(&reader))
        accessVersion = reader.isAtEnd ? nil : try reader.optionalInteger()
    }

    private static func origin(_ reader: inout RecordReader) throws(RecordFailure) -> SignInOrigin {
        guard let subject = Base64URL.decode(try reader.string()).flatMap(Digest.init) else { throw .malformed }
        return SignInOrigin(subject: subject, sid: Base64URL.decode(try reader.string()).flatMap(Digest.init))
    }
}
