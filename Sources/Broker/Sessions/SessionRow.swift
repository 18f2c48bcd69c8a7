/// A session as stored.
///
/// The user's data and the tokens are sealed or stored as digests. When the session ends, its tokens are deleted. Its row
/// then stays for 30 days as a tombstone with the reason.
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
    /// The last use that was written; before the creation for an imported session that is unused (`isUnused`).
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
    /// The session's version, which a step-up and the registration of the presence key raise (decision 74).
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

    /// Returns the last use of a session that is imported at `now`.
    ///
    /// A use is written only if enough time has passed since the last written one. The result is so early that the first use is
    /// written in any case.
    static func unusedSince(_ now: WallTime, _ lifetimes: SessionLifetimes) -> WallTime {
        now.advanced(by: .zero - SessionLimits.slideInterval(idle: lifetimes.idle))
    }

    /// Whether the session was imported, and still waits for its first use.
    var isUnused: Bool { lastUsedAt < createdAt }

    /// The last use as the session's owner may see it.
    var shownLastUse: WallTime { max(lastUsedAt, createdAt) }

    /// The time at which the session lapses if it is not used again.
    var lapsesAt: WallTime { min(idleExpiresAt, expiresAt) }

    /// Returns whether the session is alive at `now`.
    package func isLive(at now: WallTime) -> Bool { endedAt == nil && now < idleExpiresAt && now < expiresAt }
}
