/// Makes child sessions, for example for a widget, a watch or an extension (`POST /v1/session/children`).
///
/// A child uses its parent's tokens from the provider, so one refresh serves the family.
package struct MakeChild: Sendable {
    /// The largest number of living children in one family.
    package static let places = 16

    private let context: BrokerContext

    init(_ context: BrokerContext) { self.context = context }

    /// Returns a new child of a session.
    ///
    /// An older child of the same kind and name ends (`replaced`).
    ///
    /// If the answer is lost, the caller retries and gets another child, which replaces the first. The order is refused in
    /// these cases:
    /// - The client lacks this kind (`client_not_allowed`).
    /// - The parent belongs to a key, and the order names no key for the child (`invalid_request`).
    /// - The family is full, and each child has a configured kind other than `web` (`too_many_sessions`).
    package func make(
        _ order: ChildOrder, of parent: LiveSession, charge: Charge = .nobody
    ) async throws(BrokerProblem) -> SignedIn {
        let policy = try policy(of: order, parent)
        if let bound = parent.facts.thumbprint {
            guard let own = order.thumbprint else {
                throw BrokerProblem(
                    .invalidRequest, detail: "A child of a bound session needs a key of its own.",
                    with: .fields([FieldFault("/jkt", .required)]))
            }
            guard own != bound else {
                throw BrokerProblem(
                    .invalidRequest, detail: "A child must have another key than its parent.",
                    with: .fields([FieldFault("/jkt", .notAllowed)]))
            }
        }
        try context.requireRing()
        try context.require(.begin)
        // The charge covers the child's row, and the tombstone of the child that it replaces. The tombstone stays for thirty
        // days.
        try charge.takeChild()
        let (child, token) = try made(order, of: parent, policy)
        guard try await insert(child, of: parent, order.kind) else {
            // If the parent has ended, `resume` throws the reason.
            context.cache.remove([parent.tokenDigest])
            _ = try await ResumeSession(context: context).resume(parent.tokenDigest)
            throw BrokerProblem(
                .storeUnavailable, privateDetail: "the parent session changed at the same time", retryAfter: .seconds(1)
            )
        }
        return SignedIn(child: child, token: token)
    }

    /// Inserts a web child whose token is already known.
    ///
    /// If the child already exists, its row stays unchanged.
    func insertWeb(
        _ order: ChildOrder, token: Digest, of parent: LiveSession, _ policy: ChildPolicy
    ) async throws(BrokerProblem) {
        let child: LiveSession
        do throws(VaultFailure) { child = try row(order, token: token, of: parent, policy) } catch {
            throw BrokerProblem(error)
        }
        guard try await insert(child, of: parent, order.kind) else { throw BrokerProblem(.handoverExpired) }
    }

    /// Inserts a child and announces the children that it replaces; returns false if its parent is over.
    ///
    /// If the family is full, an older child ends. The first choice is a child whose kind was removed from the configuration,
    /// because each of its requests is refused anyway. The second choice is the web child that was unused for longest, so
    /// that open pages do not prevent the app from making widgets.
    private func insert(
        _ child: LiveSession, of parent: LiveSession, _ kind: ChildKind
    ) async throws(BrokerProblem) -> Bool {
        for _ in 0...Self.places {
            let stored: ChildInsertion
            do throws(StoreFailure) {
                stored = try await context.store.insertChild(child.row, places: Self.places)
            } catch {
                // The insertion may have succeeded and ended another child, whose digest is unknown here. So drop the whole
                // cache.
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
            throw BrokerProblem(.tooManySessions, detail: "The session has the maximum number of children.")
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
                .invalidRequest, detail: "Create `web` sessions with `POST /v1/session/handovers`.",
                with: .fields([FieldFault("/kind", .notAllowed)]))
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

    /// Returns the row for a requested child; it is not stored yet.
    ///
    /// The child has its parent's subject, provider and client digests, so a search by user or client finds parent and child. The
    /// child's `subjectAndClient` differs, so that the limit on sessions leaves children out.
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
