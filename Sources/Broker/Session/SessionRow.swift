/// A session as stored.
///
/// Handle and times are the only plain values; an ended one keeps no token column and stays 30 days as a tombstone with
/// its reason.
package struct SessionRow: Sendable, Equatable {
    /// SHA-256 of the session token: the key.
    package var token: Digest
    package var handle: SessionHandle
    /// Index digest of (provider's issuer, subject).
    package var subject: Digest
    /// Index digest of (provider, client, subject): for the cap and for app lists.
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
    /// When the access token dies; nil when unknown.
    package var tokenExpiresAt: WallTime?
    package var refreshable: Bool
    /// Counts token sets: the compare-and-swap of a refresh (guarantee 2).
    package var tokenVersion: Int64
    /// Counts refresh claims.
    package var fence: Int64
    /// Whether the subject of the stored tokens' id_token is still to be looked at: until then nobody gets them.
    package var subjectUnchecked: Bool
    package var endedAt: WallTime?
    package var endReason: EndReason?
    /// `SessionFacts`, sealed as `.session` for the row `token`.
    package var facts: Sealed
    /// `StoredTokens`, sealed as `.tokens` for the row `token`; nil once ended, and for a session of an id_token, which has
    /// none.
    package var tokens: Sealed?

    package init(
        token: Digest, handle: SessionHandle, subject: Digest, subjectAndClient: Digest, sid: Digest?,
        provider: Digest, client: Digest, createdAt: WallTime, lastUsedAt: WallTime, idleExpiresAt: WallTime,
        expiresAt: WallTime, tokenExpiresAt: WallTime?, refreshable: Bool, tokenVersion: Int64 = 1, fence: Int64 = 0,
        subjectUnchecked: Bool = false, endedAt: WallTime? = nil, endReason: EndReason? = nil, facts: Sealed,
        tokens: Sealed?
    ) {
        self.token = token
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
    }

    /// The row without its sealed facts: for a cache that holds them opened, which would hold them twice.
    var withoutFacts: SessionRow {
        var row = self
        row.facts = Sealed(keyID: "", envelope: [])
        return row
    }

    /// Returns whether the session lives at `now`.
    package func isLive(at now: WallTime) -> Bool { endedAt == nil && now < idleExpiresAt && now < expiresAt }
}

/// Makes a session row of a token set and an identity.
struct SessionMaker: Sendable {
    let context: BrokerContext

    /// Returns the row and what the owner sees of it.
    ///
    /// The session token's digest is the row's key; the token itself is stored nowhere. A session of an id_token has no
    /// tokens of the provider's.
    func make(
        token: Digest, tokens: TokenSet?, identity: ProviderIdentity, profile: ProviderProfile, client: ClientProfile,
        device: String?, thumbprint: Digest?, now: WallTime
    ) throws(VaultFailure) -> LiveSession {
        let vault = context.vault
        let facts = SessionFacts(
            provider: profile.name, client: client.name, subject: identity.subject, identity: identity.claims,
            unverified: identity.unverified, scope: tokens?.scope ?? [], device: device, lifetimes: client.lifetimes,
            authenticatedAt: identity.authenticatedAt, thumbprint: thumbprint)
        let refreshable = tokens?.refreshToken != nil && context.providers[profile.name] is any TokenRefreshing
        let stored = tokens.map {
            StoredTokens(provider: profile.name, client: client.name, tokens: $0, issuedAt: now)
        }
        let row = SessionRow(
            token: token, handle: SessionHandle(random: try vault.random(16)),
            subject: vault.index(.subject, [profile.issuer, identity.subject]),
            subjectAndClient: vault.index(
                .subjectAndClient, [profile.name.text, client.name.text, identity.subject]),
            sid: identity.sid.map { vault.index(.sid, [profile.issuer, $0]) },
            provider: vault.index(.provider, [profile.name.text]),
            client: vault.index(.client, [profile.name.text, client.name.text]), createdAt: now, lastUsedAt: now,
            idleExpiresAt: SessionLimits.idleEnd(usedAt: now, created: now, client.lifetimes),
            expiresAt: SessionLimits.end(created: now, client.lifetimes, tokens: tokens, refreshable: refreshable),
            tokenExpiresAt: tokens?.expiresAt, refreshable: refreshable,
            facts: try vault.seal(facts.record, as: .session, row: token),
            tokens: try stored.map { stored throws(VaultFailure) in
                try vault.seal(stored.record, as: .tokens, row: token)
            })
        return LiveSession(row: row, facts: facts, binding: context.providers.binding(of: facts))
    }
}
