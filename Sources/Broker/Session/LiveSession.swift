import Synchronization

/// A session that has just been found alive.
///
/// A class, because the cache hands the same one to call after call: its facts and its access token are opened once. What
/// refreshes it stays sealed.
package final class LiveSession: Sendable {
    /// The row it was read from, at most 5 s old; one that came from the store is without its sealed facts.
    package let row: SessionRow
    package let facts: SessionFacts
    /// The key that it belongs to, by its client's settings when it was read; nil for one that is not bound.
    package let binding: SessionBinding?
    /// When the idle time is to be written next.
    let slidesAt: WallTime

    package init(row: SessionRow, facts: SessionFacts, binding: SessionBinding?) {
        self.row = row
        self.facts = facts
        self.binding = binding
        slidesAt = row.lastUsedAt.advanced(by: SessionLimits.slideInterval(idle: facts.lifetimes.idle))
    }

    /// Returns the session with a row that has changed; its facts stay as they are.
    func with(_ row: SessionRow) -> LiveSession { LiveSession(row: row, facts: facts, binding: binding) }

    /// What its owner may see of it; made when it is asked for, because a hundred thousand may be cached.
    package var view: SessionView { SessionView(row: row, facts: facts, binding: binding) }

    /// The access token, once somebody has asked for it.
    private let opened = Mutex<AccessToken?>(nil)

    /// Whether it has tokens of the provider's: one of an id_token has none.
    package var hasTokens: Bool { row.tokens != nil }

    /// Returns the access token, which `open` opens for who asks first.
    func accessToken(
        _ open: (SessionRow) throws(BrokerProblem) -> StoredTokens
    ) throws(BrokerProblem) -> AccessToken {
        if let known = opened.withLock({ $0 }) { return known }
        let access = try open(row).access(version: row.tokenVersion)
        opened.withLock { $0 = access }
        return access
    }

    /// SHA-256 of its token.
    package var token: Digest { row.token }

    /// Whether the other sessions of its subject are other people's (`session: {own: device}`).
    func ownsItselfAlone(_ context: BrokerContext) -> Bool {
        context.providers[facts.provider]?.profile.own == .device
    }
}

extension SessionView {
    /// Creates the view of a row and its opened facts.
    package init(row: SessionRow, facts: SessionFacts, binding: SessionBinding?) {
        self.init(
            handle: row.handle, provider: facts.provider, client: facts.client, subject: facts.subject,
            identity: facts.identity, unverified: facts.unverified, scope: facts.scope, createdAt: row.createdAt,
            lastUsedAt: row.lastUsedAt, idleExpiresAt: min(row.idleExpiresAt, row.expiresAt), expiresAt: row.expiresAt,
            tokensExpireAt: row.tokenExpiresAt, refreshable: row.refreshable, device: facts.device,
            binding: binding)
    }
}
