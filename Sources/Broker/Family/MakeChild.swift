/// A child session that an app asks for.
package struct ChildOrder: Sendable {
    package var kind: ChildKind
    /// The name that tells it from others of its kind: with the kind its place in the family.
    package var name: String
    package var device: String?
    /// The thumbprint of the child's own key, which it proves at its first use.
    package var thumbprint: Digest?

    package init(kind: ChildKind, name: String, device: String? = nil, thumbprint: Digest? = nil) {
        self.kind = kind
        self.name = name
        self.device = device
        self.thumbprint = thumbprint
    }
}

/// Makes child sessions: for a widget, a watch, an extension (`POST /v1/session/children`).
///
/// A child has no tokens of the provider's: it uses its parent's, so that one refresh serves the family.
package struct MakeChild: Sendable {
    /// The most places of a family.
    package static let places = 16

    private let context: BrokerContext

    init(_ context: BrokerContext) { self.context = context }

    /// Returns a new child of a session; the one that had its place has ended (`replaced`).
    ///
    /// A caller whose answer was lost asks again, and gets another in the same place. Nothing is made where the client has no
    /// such kind (`client_not_allowed`), where a parent that belongs to a key is to have a child that belongs to none
    /// (`invalid_request`), and beyond 16 places that apps asked for (`too_many_sessions`).
    package func make(
        _ order: ChildOrder, of parent: LiveSession, charge: Charge = .nobody
    ) async throws(BrokerProblem) -> SignedIn {
        let policy = try policy(of: order, parent)
        if let bound = parent.facts.thumbprint {
            guard let own = order.thumbprint else {
                throw BrokerProblem(
                    .invalidRequest, detail: "A child of a session that belongs to a key has a key of its own.",
                    errors: [FieldFault("/jkt", .required)])
            }
            guard own != bound else {
                throw BrokerProblem(
                    .invalidRequest, detail: "A child has a key of its own.",
                    errors: [FieldFault("/jkt", .notAllowed)])
            }
        }
        try context.requireRing()
        try context.require(.begin)
        // Its row, and for thirty days the tombstone of the one before.
        try charge.takeChild()
        let (child, token) = try made(order, of: parent, policy)
        guard try await insert(child, of: parent, order.kind) else {
            // It says by itself what became of it.
            context.cache.remove([parent.tokenDigest])
            _ = try await ResumeSession(context).resume(parent.tokenDigest)
            throw BrokerProblem(.storeUnavailable, privateDetail: "the parent changed", retryAfter: .seconds(1))
        }
        return SignedIn(child: child, token: token)
    }

    /// Inserts a web child under a token that is known already; inserting it again changes nothing.
    func insertWeb(
        _ order: ChildOrder, token: Digest, of parent: LiveSession, _ policy: ChildPolicy
    ) async throws(BrokerProblem) {
        let child: LiveSession
        do throws(VaultFailure) { child = try row(order, token: token, of: parent, policy) } catch {
            throw BrokerProblem(error)
        }
        guard try await insert(child, of: parent, order.kind) else { throw BrokerProblem(.handoverExpired) }
    }

    /// Inserts a child and says so; false where its parent is over.
    ///
    /// Where all places are taken, a child makes room that is refused everywhere, because its kind is not configured any more;
    /// else the web child that nobody used for longest, whoever comes: pages that were opened must not keep the app from its
    /// widgets.
    private func insert(
        _ child: LiveSession, of parent: LiveSession, _ kind: ChildKind
    ) async throws(BrokerProblem) -> Bool {
        for _ in 0...Self.places {
            let stored: ChildInsertion
            do throws(StoreFailure) {
                stored = try await context.store.insertChild(child.row, places: Self.places)
            } catch {
                // Whose place it took nobody says any more.
                if case .inDoubt = error {
                    context.cache.clear()
                    context.notices.doubtAll()
                }
                throw BrokerProblem(error)
            }
            switch stored {
            case .made(let replaced):
                EndSession(context).announce(replaced, .replaced)
                context.events.emit(
                    .childMade(
                        provider: parent.facts.provider, client: parent.facts.client, kind: kind,
                        session: child.row.handle))
                return true
            case .full: try await makeRoom(in: parent)
            case .parentEnded: return false
            }
        }
        throw BrokerProblem(.tooManySessions)
    }

    private func makeRoom(in parent: LiveSession) async throws(BrokerProblem) {
        let children: [SessionRow]
        do throws(StoreFailure) {
            children = try await context.store.children(of: [parent.tokenDigest], now: context.lapseTime)
        } catch { throw BrokerProblem(error) }
        let configured = context.providers[parent.facts.provider]?.profile.client(parent.facts.client)?.children ?? [:]
        var (refused, web): ([SessionRow], [SessionRow]) = ([], [])
        for child in children {
            guard let kind = (try? SessionFacts.open(child, context.vault))?.child?.kind else { continue }
            if configured[kind] == nil { refused.append(child) } else if kind == .web { web.append(child) }
        }
        guard let unused = (refused.isEmpty ? web : refused).min(by: { $0.lastUsedAt < $1.lastUsedAt }) else {
            throw BrokerProblem(.tooManySessions, detail: "The session has as many children as it may have.")
        }
        try await EndSession(context).end(.token(unused.tokenDigest), reason: .sessionLimit, handle: unused.handle)
    }

    private func policy(of order: ChildOrder, _ parent: LiveSession) throws(BrokerProblem) -> ChildPolicy {
        let children = context.providers[parent.facts.provider]?.profile.client(parent.facts.client)?.children ?? [:]
        guard !children.isEmpty else {
            throw BrokerProblem(.clientNotAllowed, privateDetail: "the client has no `children`")
        }
        guard order.kind != .web else {
            throw BrokerProblem(
                .invalidRequest, detail: "A session of kind `web` is handed over, and not asked for.",
                errors: [FieldFault("/kind", .notAllowed)])
        }
        guard let policy = children[order.kind] else {
            throw BrokerProblem(.clientNotAllowed, privateDetail: "the client has no children of this kind")
        }
        return policy
    }

    private func made(
        _ order: ChildOrder, of parent: LiveSession, _ policy: ChildPolicy
    ) throws(BrokerProblem) -> (child: LiveSession, token: Secret) {
        do throws(VaultFailure) {
            let token = try context.vault.randomToken()
            let row = try row(order, token: context.vault.digest(token), of: parent, policy)
            return (row, token)
        } catch { throw BrokerProblem(error) }
    }

    /// Returns the child of an order, still unwritten.
    ///
    /// It has its parent's digests, so that whoever looks for these finds both; but it counts for no cap on sessions.
    private func row(
        _ order: ChildOrder, token: Digest, of parent: LiveSession, _ policy: ChildPolicy
    ) throws(VaultFailure) -> LiveSession {
        let vault = context.vault
        let now = context.clock.now()
        let whose = parent.facts
        var facts = whose
        facts.device = order.device
        facts.lifetimes = policy.lifetimes
        facts.thumbprint = order.thumbprint
        facts.child = ChildFacts(
            kind: order.kind, name: order.name, parent: parent.tokenDigest, parentHandle: parent.row.handle)
        let lasting = now.advanced(by: policy.lifetimes.absolute)
        let row = SessionRow(
            tokenDigest: token, handle: SessionHandle(random: try vault.random(16)), subject: parent.row.subject,
            subjectAndClient: vault.index(
                .subjectAndClient, [whose.provider.text, whose.client.text, whose.subject, "children"]),
            sid: parent.row.sid, provider: parent.row.provider, client: parent.row.client, createdAt: now,
            lastUsedAt: now,
            idleExpiresAt: SessionLimits.idleEnd(usedAt: now, created: now, policy.lifetimes),
            expiresAt: min(lasting, parent.row.createdAt.advanced(by: whose.lifetimes.absolute)),
            tokenExpiresAt: nil, refreshable: false, facts: try vault.seal(facts.record, as: .session, row: token),
            tokens: nil,
            lineage: Lineage(
                parent: parent.tokenDigest,
                place: vault.index(
                    .childPlace, [Base64URL.encode(parent.tokenDigest.bytes), order.kind.text, order.name])))
        return LiveSession(
            row: row, facts: facts, binding: context.providers.binding(of: facts),
            family: Family(parent: parent, policy: policy))
    }
}
