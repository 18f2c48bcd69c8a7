/// Lists a user's own sessions, for example for a page "your devices".
package struct ListSessions: Sendable {
    private let context: BrokerContext

    package init(_ context: BrokerContext) { self.context = context }

    /// Returns a page of the owner's live sessions, newest first; throws `invalid_request` for a malformed cursor.
    package func list(
        for owner: LiveSession, cursor: String?, limit: Int = 50
    ) async throws(BrokerProblem) -> SessionPage {
        let own: SessionSelector =
            owner.ownsItselfAlone(context) ? .token(owner.tokenDigest) : .subject(owner.row.subject)
        return try await page(own, .live, current: owner.tokenDigest, cursor: cursor, limit: limit)
    }

    /// Returns a page of a selector's sessions; each live session is followed by its children.
    ///
    /// With `isUnbound`, the page contains only unbound sessions. Such a page may be short or even empty although more pages
    /// follow, so it may still have a cursor.
    ///
    /// `withTokens` also opens the tokens of each session, to report how they are bound.
    func page(
        _ selector: SessionSelector, _ state: SessionState, isUnbound: Bool = false, withTokens: Bool = false,
        current: Digest?, cursor: String?, limit: Int
    ) async throws(BrokerProblem) -> SessionPage {
        let after = try SessionCursor.parse(cursor)
        let limit = min(max(limit, 1), 200)
        let rows: [SessionRow]
        do throws(StoreFailure) {
            rows = try await context.store.sessions(
                selector, state, after: after, limit: limit + 1, now: context.lapseTime)
        } catch { throw BrokerProblem(error) }
        let shown = Array(rows.prefix(limit))
        let children = state == .live ? try await children(of: shown) : [:]
        var items: [SessionPage.Item] = []
        for row in shown {
            let constraint = withTokens ? constraint(of: row) : nil
            if var item = item(row, current, isUnbound: isUnbound) {
                item.senderConstraint = constraint
                items.append(item)
            }
            for child in children[row.tokenDigest] ?? [] {
                guard var item = item(child, current, isUnbound: isUnbound) else { continue }
                item.session = item.session.within(row)
                item.senderConstraint = constraint
                items.append(item)
            }
        }
        let last = rows.count > limit ? shown.last : nil
        return SessionPage(
            items: items, nextCursor: last.map { SessionCursor(after: $0).text })
    }

    /// Returns the list item for a row; nil for a row that the list omits.
    private func item(_ row: SessionRow, _ current: Digest?, isUnbound: Bool) -> SessionPage.Item? {
        // If this process fails to open a row, the list omits the row. Listing never ends a session.
        guard let facts = try? SessionFacts.open(row, context.vault), !isUnbound || facts.thumbprint == nil
        else { return nil }
        var view = SessionView(row: row, facts: facts, binding: context.providers.binding(of: facts))
        if let stored = row.presence {
            guard let record = try? context.vault.open(stored.sealed, as: .presence, row: row.tokenDigest),
                let presence = try? SessionPresence(record: record)
            else { return nil }
            view.presence = presence
        }
        return SessionPage.Item(
            session: view,
            current: row.tokenDigest == current, endedAt: row.endedAt, reason: row.endReason?.shown)
    }

    /// Returns the constraint that binds a session's tokens; nil if the tokens are unbound, or if this process cannot open
    /// them.
    private func constraint(of row: SessionRow) -> SenderConstraint? {
        guard let sealed = row.tokens,
            let record = try? context.vault.open(sealed, as: .tokens, row: row.tokenDigest),
            let stored = try? StoredTokens(record: record)
        else { return nil }
        // `SenderConstraint` and `Credential` use the same words for `dpop` and `mtls`.
        return SenderConstraint(rawValue: stored.tokens.credential.rawValue)
    }

    private func children(of rows: [SessionRow]) async throws(BrokerProblem) -> [Digest: [SessionRow]] {
        let parents = rows.filter { $0.lineage == nil }.map(\.tokenDigest)
        guard !parents.isEmpty else { return [:] }
        do throws(StoreFailure) {
            let children = try await context.store.children(of: parents, now: context.lapseTime)
            return Dictionary(grouping: children) { $0.lineage?.parent ?? $0.tokenDigest }
        } catch { throw BrokerProblem(error) }
    }
}
