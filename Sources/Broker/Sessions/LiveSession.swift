import Synchronization

/// A session that was alive when it was read a moment ago.
///
/// Many requests share the cached object, so the type is a class. The session's facts and access token are opened only one time.
/// The refresh token stays sealed.
package final class LiveSession: Sendable {
    /// The session's row.
    ///
    /// The cache returns it for at most 5 s.
    ///
    /// If the row came from the store, its sealed facts were opened into `facts` and then removed from the row.
    package let row: SessionRow
    /// The SHA-256 of the session token.
    package let tokenDigest: Digest
    package let facts: SessionFacts
    /// The key that the session belongs to, according to its client's settings at the time of the call; nil for an unbound
    /// session.
    package let binding: SessionBinding?
    /// The parent and the policy of a child; nil for a top-level session.
    package let family: Family?
    /// Whether the session has tokens from the provider; a session from an id_token has none.
    package let hasTokens: Bool
    /// The earliest time at which the idle end is written again.
    let slidesAt: WallTime

    package init(row: SessionRow, facts: SessionFacts, binding: SessionBinding?, family: Family? = nil) {
        self.row = row
        tokenDigest = row.tokenDigest
        self.facts = facts
        self.binding = binding
        self.family = family
        hasTokens = (family?.parent.row ?? row).tokens != nil
        slidesAt = row.lastUsedAt.advanced(by: SessionLimits.slideInterval(idle: facts.lifetimes.idle))
    }

    /// Returns the session with a changed row and the same facts.
    func with(_ row: SessionRow) -> LiveSession {
        LiveSession(row: row, facts: facts, binding: binding, family: family)
    }

    /// Returns the session with the binding that its client's changed settings give it.
    func with(_ binding: SessionBinding?) -> LiveSession {
        LiveSession(row: row, facts: facts, binding: binding, family: family)
    }

    /// Returns a child session together with its parent and policy.
    func with(_ family: Family) -> LiveSession {
        LiveSession(row: row, facts: facts.inheriting(family.parent.facts), binding: binding, family: family)
    }

    /// The session as its owner may see it.
    ///
    /// The view is made on demand, because a hundred thousand sessions may be cached.
    package var view: SessionView {
        let view = SessionView(row: row, facts: facts, binding: binding)
        return family.map { view.within($0.parent.row) } ?? view
    }

    /// The time at which the session lapses, alone or with its parent, if it is not used again.
    var lapsesAt: WallTime { family.map { min(row.lapsesAt, $0.parent.row.lapsesAt) } ?? row.lapsesAt }

    /// Returns a problem of the token holder as a problem of this session.
    ///
    /// For a child, the parent's end becomes `parent_ended`.
    func hears(_ problem: BrokerProblem) -> BrokerProblem { family == nil ? problem : problem.ofParent }

    /// The session whose tokens this session uses: itself, or its parent.
    package var tokenHolder: LiveSession { family?.parent ?? self }

    /// The opened access token; nil until the first caller requests it.
    private let opened = Mutex<AccessToken?>(nil)

    /// The last valid pass of this session.
    ///
    /// A phone shows the same pass with every request, for some minutes.
    private let lastPass = Mutex<(text: Secret, pass: SessionPass)?>(nil)

    /// Checks a pass of this session.
    ///
    /// Throws `ProofRefusal.pass` for another session's pass or a forged text, and `.required` for an ended pass. The last
    /// valid pass is recognised without computing its HMAC again.
    func pass(_ text: Secret, at now: WallTime, by vault: some Vault) throws(ProofRefusal) -> SessionPass {
        if let last = lastPass.withLock({ $0 }), last.text.isEqual(to: text) {
            try last.pass.check(at: now)
            return last.pass
        }
        let pass = try SessionPass(text, of: tokenDigest, at: now, by: vault)
        lastPass.withLock { $0 = (text, pass) }
        return pass
    }

    /// Returns the access token.
    ///
    /// The first call opens the stored tokens with `open`, and later calls return the same object.
    func accessToken(
        _ open: (SessionRow) throws(BrokerProblem) -> StoredTokens
    ) throws(BrokerProblem) -> AccessToken {
        if let known = opened.withLock({ $0 }) { return known }
        let access = try open(row).access(version: row.tokenVersion)
        opened.withLock { $0 = access }
        return access
    }

    /// Returns whether several people share the session's subject, so that this session's user owns this session only
    /// (`session: {own: device}`).
    func ownsItselfAlone(_ context: BrokerContext) -> Bool {
        context.providers[facts.provider]?.profile.own == .device
    }
}
