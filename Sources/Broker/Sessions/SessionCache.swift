import Synchronization

/// The bounded cache of sessions with their opened facts, which most requests use (decision 39).
///
/// An entry lives at most 5 s. An ending removes the session's entry at once, and keeps out the results of loads that began
/// before the ending (SEC-129).
///
/// Entries are in two dictionaries, young and old. After each lifetime, the old dictionary is dropped with its expired
/// entries, and the young dictionary becomes the old one.
package final class SessionCache: Sendable {
    private struct Entry {
        let session: LiveSession
        let until: Duration
    }

    private typealias Entries = [Digest: Entry]

    private struct State {
        var young: Entries = [:]
        var old: Entries = [:]
        /// The time when the young entries last became the old ones.
        var turnedAt: Duration = .zero
        var generation: UInt64 = 0
        var open: Bool
        /// The number of entries that were dropped because of their age.
        var released = 0

        /// Drops the old entries and makes the young ones old if a lifetime has passed; returns dropped entries.
        ///
        /// The caller frees their memory outside the lock.
        mutating func turn(at moment: Duration, every lifetime: Duration) -> Entries {
            guard moment - turnedAt >= lifetime else { return [:] }
            let dead = old
            // After two lifetimes the young entries have expired as well.
            let isOver = moment - turnedAt >= lifetime * 2
            released += dead.count + (isOver ? young.count : 0)
            old = isOver ? [:] : young
            young = [:]
            turnedAt = moment
            return dead
        }

        /// Drops all entries, keeps out the results of loads in progress, and returns the dropped entries.
        mutating func empty() -> [Entries] {
            defer { (young, old) = ([:], [:]) }
            generation &+= 1
            return [young, old]
        }

        mutating func remove(_ tokenDigest: Digest) {
            young[tokenDigest] = nil
            if !old.isEmpty { old[tokenDigest] = nil }
        }
    }

    private let lifetime: Duration
    private let capacity: Int
    /// Guards the entries, the generation that each removal raises, and whether the cache may be filled.
    private let state: Mutex<State>

    /// Creates a cache; a lifetime of zero turns caching off.
    package init(lifetime: Duration = .seconds(5), capacity: Int = 100_000) {
        self.lifetime = min(lifetime, .seconds(5))
        self.capacity = capacity
        state = Mutex(State(open: lifetime > .zero))
    }

    /// Returns a fresh session from the cache, or else the generation to pass to `insert`.
    func lookUp(_ tokenDigest: Digest, at moment: Duration) -> (session: LiveSession?, generation: UInt64) {
        let (session, generation, dead) = state.withLock { state -> (LiveSession?, UInt64, Entries) in
            let dead = state.turn(at: moment, every: lifetime)
            guard let entry = state.young[tokenDigest] ?? state.old[tokenDigest], moment < entry.until else {
                return (nil, state.generation, dead)
            }
            return (entry.session, state.generation, dead)
        }
        _ = consume dead
        return (session, generation)
    }

    /// Caches a loaded session, unless any session was removed from the cache since the load began.
    func insert(_ session: LiveSession, loadedAt moment: Duration, generation: UInt64) {
        state.withLock { state in
            guard state.open, state.generation == generation, capacity > 0 else { return }
            // All entries may be fresh, so empty the cache instead of searching for an expired entry. Each dropped session
            // costs one read.
            if state.young.count + state.old.count >= capacity { state.old = [:] }
            if state.young.count >= capacity { state.young = [:] }
            state.young[session.tokenDigest] = Entry(session: session, until: moment + lifetime)
        }
    }

    /// Changes the row of a cached session after this process has changed it in the store; the facts stay the same.
    func update(_ tokenDigest: Digest, _ change: (inout SessionRow) -> Void) {
        state.withLock { state in
            guard let entry = state.young[tokenDigest] ?? state.old[tokenDigest] else { return }
            var row = entry.session.row
            change(&row)
            state.young[tokenDigest] = Entry(session: entry.session.with(row), until: entry.until)
        }
    }

    /// Removes sessions from the cache after an ending, a refresh, a change of their facts, or a notice of such a change.
    package func remove(_ tokenDigests: [Digest]) {
        state.withLock { state in
            state.generation &+= 1
            for tokenDigest in tokenDigests { state.remove(tokenDigest) }
        }
    }

    /// Removes a session from the cache if its cached tokens differ from the tokens of `row`, and `row` has the same or a
    /// higher token version.
    func remove(olderThan row: SessionRow) {
        let known = state.withLock { state in
            (state.young[row.tokenDigest] ?? state.old[row.tokenDigest])?.session.row
        }
        guard let known, known.tokenVersion <= row.tokenVersion, known.tokens != row.tokens else { return }
        remove([row.tokenDigest])
    }

    /// Removes all sessions from the cache, because it is unknown which ones have ended.
    func clear() {
        let dead = state.withLock { $0.empty() }
        _ = consume dead
    }

    /// Drops expired entries, even while the cache is idle.
    package func trim(at moment: Duration) {
        let dead = state.withLock { $0.turn(at: moment, every: lifetime) }
        _ = consume dead
    }

    /// Empties the cache and sets whether it may be filled; `open` is false while this replica receives no notices.
    package func reset(open: Bool) {
        let dead = state.withLock { state in
            state.open = open && lifetime > .zero
            return state.empty()
        }
        _ = consume dead
    }

    /// The number of entries that were dropped because of their age since the process began.
    package var released: Int { state.withLock { $0.released } }

    /// The number of sessions in the cache.
    package var count: Int { state.withLock { Set($0.young.keys).union($0.old.keys).count } }
}

/// A session that was alive when it was read a moment ago.
///
/// Many requests share the cached object, so the type is a class. Its facts and its access token are opened only one time.
/// Its refresh token stays sealed.
package final class LiveSession: Sendable {
    /// The session's row.
    ///
    /// The cache returns it for at most 5 s.
    ///
    /// If the row came from the store, its sealed facts were opened into `facts` and then removed from the row.
    package let row: SessionRow
    package let facts: SessionFacts
    /// The key that the session belongs to, according to its client's settings at the time of the call; nil for an unbound
    /// session.
    package let binding: SessionBinding?
    /// The parent and the policy of a child; nil for a top-level session.
    package let family: Family?
    /// The earliest time at which the idle end is written again.
    let slidesAt: WallTime

    package init(row: SessionRow, facts: SessionFacts, binding: SessionBinding?, family: Family? = nil) {
        self.row = row
        self.facts = facts
        self.binding = binding
        self.family = family
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
    /// It is made on demand, because a hundred thousand sessions may be cached.
    package var view: SessionView {
        let view = SessionView(row: row, facts: facts, binding: binding)
        return family.map { view.within($0.parent.row) } ?? view
    }

    /// The time at which the session lapses, alone or with its parent, if it is not used again.
    var lapsesAt: WallTime { family.map { min(row.lapsesAt, $0.parent.row.lapsesAt) } ?? row.lapsesAt }

    /// Converts a problem of the session that has the tokens into a problem of this session: for a child, the parent's end
    /// becomes `parent_ended`.
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
    /// Throws `pass` for another session's pass or a forged text, and `required` for an ended pass. The last valid pass is
    /// recognised without computing its HMAC again.
    func pass(_ text: Secret, at now: WallTime, by vault: some Vault) throws(ProofRefusal) -> SessionPass {
        if let last = lastPass.withLock({ $0 }), last.text.isEqual(to: text) {
            try last.pass.check(at: now)
            return last.pass
        }
        let pass = try SessionPass(text, of: tokenDigest, at: now, by: vault)
        lastPass.withLock { $0 = (text, pass) }
        return pass
    }

    /// Whether the session has tokens from the provider; a session from an id_token has none.
    package var hasTokens: Bool { tokenHolder.row.tokens != nil }

    /// Returns the access token; on the first call, `open` opens it.
    func accessToken(
        _ open: (SessionRow) throws(BrokerProblem) -> StoredTokens
    ) throws(BrokerProblem) -> AccessToken {
        if let known = opened.withLock({ $0 }) { return known }
        let access = try open(row).access(version: row.tokenVersion)
        opened.withLock { $0 = access }
        return access
    }

    /// The SHA-256 of the session token.
    package var tokenDigest: Digest { row.tokenDigest }

    /// Returns whether several people share the session's subject, so that this session's user owns this session only
    /// (`session: {own: device}`).
    func ownsItselfAlone(_ context: BrokerContext) -> Bool {
        context.providers[facts.provider]?.profile.own == .device
    }
}

extension SessionView {
    /// Creates the owner's view from a row and its opened facts.
    package init(row: SessionRow, facts: SessionFacts, binding: SessionBinding?) {
        self.init(
            handle: row.handle, provider: facts.provider, client: facts.client, subject: facts.subject,
            identity: facts.identity, unverified: facts.unverified, scope: facts.scope, createdAt: row.createdAt,
            lastUsedAt: row.lastUsedAt, idleExpiresAt: min(row.idleExpiresAt, row.expiresAt), expiresAt: row.expiresAt,
            tokensExpireAt: row.tokenExpiresAt, refreshable: row.refreshable, device: facts.device,
            binding: binding, child: facts.child, signIn: facts.signIn, version: row.version)
    }

    /// Returns a child's view within its parent's limits, with the state of its parent's tokens.
    func within(_ parent: SessionRow) -> SessionView {
        var view = self
        view.expiresAt = min(expiresAt, parent.expiresAt)
        view.idleExpiresAt = min(idleExpiresAt, parent.idleExpiresAt, parent.expiresAt)
        view.tokensExpireAt = parent.tokenExpiresAt
        view.refreshable = parent.refreshable
        return view
    }
}
