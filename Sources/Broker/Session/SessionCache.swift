import Synchronization

/// The hot path's bounded cache of sessions, each with what of it was opened (decision 39).
///
/// An entry lives 5 s at most; an ending removes it at once, and a load that began before an ending does not insert
/// (SEC-129). Entries lie in two generations that change places once in a lifetime: what nobody asks for again goes
/// whole with the older one.
package final class SessionCache: Sendable {
    private struct Entry {
        let session: LiveSession
        let until: Duration
    }

    private typealias Entries = [Digest: Entry]

    private struct State {
        var young: Entries = [:]
        var old: Entries = [:]
        /// The time at which the generations changed places.
        var turnedAt: Duration = .zero
        var generation: UInt64 = 0
        var open: Bool
        /// The number of rows that went with their generation.
        var released = 0

        /// Changes the generations when it is time, and returns what went, for its memory to be freed outside the lock.
        mutating func turn(at moment: Duration, every lifetime: Duration) -> Entries {
            guard moment - turnedAt >= lifetime else { return [:] }
            let dead = old
            // After two lifetimes the young ones are dead as well.
            let isOver = moment - turnedAt >= lifetime * 2
            released += dead.count + (isOver ? young.count : 0)
            old = isOver ? [:] : young
            young = [:]
            turnedAt = moment
            return dead
        }

        /// Lets go of everything, loads under way included, and returns what went.
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
    /// Guards the entries, the count of endings, and whether anything may be cached.
    private let state: Mutex<State>

    /// Creates a cache; a lifetime of zero caches nothing.
    package init(lifetime: Duration = .seconds(5), capacity: Int = 100_000) {
        self.lifetime = min(lifetime, .seconds(5))
        self.capacity = capacity
        state = Mutex(State(open: lifetime > .zero))
    }

    /// Returns a fresh session, or the generation to load under.
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

    /// Keeps a loaded session, unless something ended since the load began.
    func insert(_ session: LiveSession, loadedAt moment: Duration, generation: UInt64) {
        state.withLock { state in
            guard state.open, state.generation == generation, capacity > 0 else { return }
            // All of them may be fresh: start over rather than search; they come back within one read each.
            if state.young.count + state.old.count >= capacity { state.old = [:] }
            if state.young.count >= capacity { state.young = [:] }
            state.young[session.tokenDigest] = Entry(session: session, until: moment + lifetime)
        }
    }

    /// Changes a row that this process has changed in the store, if it is cached; its facts stay as they are.
    func update(_ tokenDigest: Digest, _ change: (inout SessionRow) -> Void) {
        state.withLock { state in
            guard let entry = state.young[tokenDigest] ?? state.old[tokenDigest] else { return }
            var row = entry.session.row
            change(&row)
            state.young[tokenDigest] = Entry(session: entry.session.with(row), until: entry.until)
        }
    }

    /// Forgets rows, for an ending, a refresh, a change of their facts or a notice of one.
    package func remove(_ tokenDigests: [Digest]) {
        state.withLock { state in
            state.generation &+= 1
            for tokenDigest in tokenDigests { state.remove(tokenDigest) }
        }
    }

    /// Forgets a session that is cached with other tokens than a row that has been read since.
    func remove(olderThan row: SessionRow) {
        let known = state.withLock { state in
            (state.young[row.tokenDigest] ?? state.old[row.tokenDigest])?.session.row
        }
        guard let known, known.tokenVersion <= row.tokenVersion, known.tokens != row.tokens else { return }
        remove([row.tokenDigest])
    }

    /// Forgets all rows: sessions ended, and nobody knows which.
    func clear() {
        let dead = state.withLock { $0.empty() }
        _ = consume dead
    }

    /// Lets go of what has died, also when nobody asks for anything.
    package func trim(at moment: Duration) {
        let dead = state.withLock { $0.turn(at: moment, every: lifetime) }
        _ = consume dead
    }

    /// Empties the cache and says whether it may be filled: false while notices cannot be heard.
    package func reset(open: Bool) {
        let dead = state.withLock { state in
            state.open = open && lifetime > .zero
            return state.empty()
        }
        _ = consume dead
    }

    /// The number of rows that have died of age since the process began.
    package var released: Int { state.withLock { $0.released } }

    /// The number of rows held.
    package var count: Int { state.withLock { Set($0.young.keys).union($0.old.keys).count } }
}

/// A session that has just been found alive.
///
/// A class, because the cache hands the same one to call after call: its facts and its access token are opened once. What
/// refreshes it stays sealed.
package final class LiveSession: Sendable {
    /// The row it was read from, at most 5 s old; one that came from the store is without its sealed facts.
    package let row: SessionRow
    package let facts: SessionFacts
    /// The key that it belongs to, by its client's settings as the call found them; nil for one that is not bound.
    package let binding: SessionBinding?
    /// The support of a child; nil for a session that is nobody's child.
    package let family: Family?
    /// The time at which the idle time is to be written next.
    let slidesAt: WallTime

    package init(row: SessionRow, facts: SessionFacts, binding: SessionBinding?, family: Family? = nil) {
        self.row = row
        self.facts = facts
        self.binding = binding
        self.family = family
        slidesAt = row.lastUsedAt.advanced(by: SessionLimits.slideInterval(idle: facts.lifetimes.idle))
    }

    /// Returns the session with a row that has changed; its facts stay as they are.
    func with(_ row: SessionRow) -> LiveSession {
        LiveSession(row: row, facts: facts, binding: binding, family: family)
    }

    /// Returns the session under other settings of its client's.
    func with(_ binding: SessionBinding?) -> LiveSession {
        LiveSession(row: row, facts: facts, binding: binding, family: family)
    }

    /// Returns a child with its support.
    func with(_ family: Family) -> LiveSession {
        LiveSession(row: row, facts: facts.inheriting(family.parent.facts), binding: binding, family: family)
    }

    /// The owner's view of it; made when it is asked for, because a hundred thousand may be cached.
    package var view: SessionView {
        let view = SessionView(row: row, facts: facts, binding: binding)
        return family.map { view.within($0.parent.row) } ?? view
    }

    /// The time at which it lapses if nobody uses it again, alone or with its parent.
    var lapsesAt: WallTime { family.map { min(row.lapsesAt, $0.parent.row.lapsesAt) } ?? row.lapsesAt }

    /// Returns a problem of the session whose tokens it uses as its own: a child hears that its parent is over.
    func hears(_ problem: BrokerProblem) -> BrokerProblem { family == nil ? problem : problem.ofParent }

    /// The session whose tokens it uses: itself, or its parent.
    package var tokenHolder: LiveSession { family?.parent ?? self }

    /// The access token, once somebody has asked for it.
    private let opened = Mutex<AccessToken?>(nil)

    /// The last pass that was found good for it: a phone shows the same one for some minutes.
    private let lastPass = Mutex<(text: Secret, pass: SessionPass)?>(nil)

    /// Judges a pass of this session: throws `pass` for one that is another's or not ours, and `required` for one that has ended.
    ///
    /// The one that was good before needs no HMAC again.
    func pass(_ text: Secret, at now: WallTime, by vault: some Vault) throws(ProofRefusal) -> SessionPass {
        if let last = lastPass.withLock({ $0 }), last.text.isEqual(to: text) {
            try last.pass.check(at: now)
            return last.pass
        }
        let pass = try SessionPass(text, of: tokenDigest, at: now, by: vault)
        lastPass.withLock { $0 = (text, pass) }
        return pass
    }

    /// Whether it has tokens of the provider's: one of an id_token has none.
    package var hasTokens: Bool { tokenHolder.row.tokens != nil }

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
    package var tokenDigest: Digest { row.tokenDigest }

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
            binding: binding, child: facts.child, signIn: facts.signIn, version: row.version)
    }

    /// Returns a child's view within its parent's limits, with how its parent's tokens stand.
    func within(_ parent: SessionRow) -> SessionView {
        var view = self
        view.expiresAt = min(expiresAt, parent.expiresAt)
        view.idleExpiresAt = min(idleExpiresAt, parent.idleExpiresAt, parent.expiresAt)
        view.tokensExpireAt = parent.tokenExpiresAt
        view.refreshable = parent.refreshable
        return view
    }
}
