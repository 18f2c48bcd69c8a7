/// Lists and ends sessions for operators.
///
/// Each call that ends sessions writes an audit record before it ends the first session (SEC-99).
package struct AdminSessions: Sendable {
    private let context: BrokerContext

    package init(_ context: BrokerContext) { self.context = context }

    /// The export of sessions for another system.
    package var export: SessionExport { SessionExport(context) }

    /// The import that an operator makes to test a client's settings.
    package var firstImport: FirstImport { FirstImport(context) }

    /// The conditions of a listing; if all are nil, every session is listed.
    package struct Filter: Sendable {
        package var provider: ProviderName?
        package var client: ClientName?
        package var subject: String?

        package init(provider: ProviderName? = nil, client: ClientName? = nil, subject: String? = nil) {
            self.provider = provider
            self.client = client
            self.subject = subject
        }
    }

    /// Returns a page of live or ended sessions, for questions such as "why was I logged out?"; with `isUnbound`, only
    /// unbound sessions.
    ///
    /// A filter by subject or client also needs the provider.
    package func list(
        _ filter: Filter, _ state: SessionState, isUnbound: Bool = false, cursor: String?, limit: Int = 50
    ) async throws(BrokerProblem) -> SessionPage {
        try await ListSessions(context).page(
            try selector(filter), state, isUnbound: isUnbound, withTokens: true, current: nil, cursor: cursor,
            limit: limit)
    }

    /// Ends the session with a given handle; throws `not_found` if the handle is unknown.
    package func end(handle: SessionHandle, actor: String) async throws(BrokerProblem) {
        try await audit("end_session", target: handle.text, actor: actor)
        let row: SessionRow?
        do throws(StoreFailure) { row = try await context.store.session(handle: handle) } catch {
            throw BrokerProblem(error)
        }
        guard let row else { throw BrokerProblem(.notFound) }
        RequestScope.concerns(handle)
        try await EndSession(context).end(.token(row.tokenDigest), reason: .admin, handle: handle)
    }

    /// Ends every session that matches a filter (a subject, a client, a provider); returns the number of ended sessions.
    @discardableResult
    package func end(_ filter: Filter, actor: String) async throws(BrokerProblem) -> Int {
        let selector = try selector(filter)
        let target = [filter.provider?.text, filter.client?.text, filter.subject.map { _ in "subject" }]
            .compactMap { $0 }.joined(separator: "/")
        try await audit("end_sessions", target: target + tag(filter.subject), actor: actor)
        return try await EndSession(context).end(selector, reason: .admin)
    }

    /// The result of one call that ends unbound sessions.
    ///
    /// Some matching sessions may be left for a further call.
    package struct PartlyEnded: Sendable {
        package var ended = 0
        /// The number of sessions that stay alive because this process failed to open them.
        ///
        /// A newer version wrote them, or their key is missing.
        package var unreadable = 0
        /// The cursor for the next call; nil if no session is left to read.
        package var nextCursor: String?
    }

    /// Ends the unbound sessions that match a filter.
    ///
    /// Five seconds after the call began, the method stops at the end of a batch, and the result contains a cursor for the next
    /// call.
    ///
    /// Each session is read and opened, because only its sealed facts show whether it is unbound.
    package func endUnbound(
        _ filter: Filter, cursor: String?, actor: String
    ) async throws(BrokerProblem) -> PartlyEnded {
        let selector = try selector(filter)
        var after = try SessionCursor.parse(cursor)
        let target = [filter.provider?.text, filter.client?.text, "unbound"].compactMap { $0 }.joined(separator: "/")
        try await audit("end_sessions", target: target, actor: actor)
        let end = context.clock.monotonic() + .seconds(5)
        var part = PartlyEnded()
        repeat {
            let rows: [SessionRow]
            do throws(StoreFailure) {
                rows = try await context.store.sessions(
                    selector, .live, after: after, limit: Self.unboundAtOnce, now: context.lapseTime)
            } catch { throw BrokerProblem(error) }
            for row in rows {
                guard let facts = try? SessionFacts.open(row, context.vault) else {
                    part.unreadable += 1
                    continue
                }
                guard facts.thumbprint == nil else { continue }
                part.ended += try await EndSession(context).end(
                    .token(row.tokenDigest), reason: .admin, handle: row.handle)
            }
            guard rows.count == Self.unboundAtOnce, let last = rows.last else { return part }
            after = SessionCursor(after: last)
        } while context.clock.monotonic() < end
        part.nextCursor = after?.text
        return part
    }

    /// The number of sessions that `endUnbound` reads from the store in one batch.
    private static let unboundAtOnce = 200

    private func tag(_ subject: String?) -> String {
        guard let subject else { return "" }
        return ":" + Base64URL.encode(context.vault.index(.logTag, ["subject", subject]).bytes.prefix(12))
    }

    /// Returns the selector of a filter; throws if the filter is incomplete, or names an unknown provider.
    func selector(_ filter: Filter) throws(BrokerProblem) -> SessionSelector {
        guard let name = filter.provider else {
            guard filter.client == nil, filter.subject == nil else {
                throw BrokerProblem(.invalidRequest, with: .fields([FieldFault("provider", .required)]))
            }
            return .all
        }
        guard let provider = context.providers[name] else { throw BrokerProblem(.providerNotFound) }
        let vault = context.vault
        switch (filter.subject, filter.client) {
        case (let subject?, nil): return .subject(vault.index(.subject, [provider.profile.issuer, subject]))
        case (nil, let client?): return .client(vault.index(.client, [name.text, client.text]))
        case (nil, nil): return .provider(vault.index(.provider, [name.text]))
        case (_?, _?):
            throw BrokerProblem(.invalidRequest, with: .fields([FieldFault("client", .conflict)]))
        }
    }

    /// Writes an audit record of an action that is about to begin.
    func audit(_ action: String, target: String, actor: String) async throws(BrokerProblem) {
        do throws(StoreFailure) {
            try await context.store.appendAudit(
                AuditRow(at: context.clock.now(), actor: actor, action: action, target: target, outcome: "begun"))
        } catch { throw BrokerProblem(error) }
        context.events.emit(.adminAction(actor: actor, action: action))
    }
}
