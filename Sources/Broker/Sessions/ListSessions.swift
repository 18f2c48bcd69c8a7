/// Lists a user's own sessions: "your devices".
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

    /// Returns the constraint that binds a session's tokens; nil if they are unbound, or if this process lacks their key.
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

/// One page of a session list.
package struct SessionPage: Sendable {
    package struct Item: Sendable {
        package internal(set) var session: SessionView
        /// Whether this is the session that made the request.
        package let current: Bool
        package let endedAt: WallTime?
        package let reason: EndReason?
        /// The way in which the session's tokens are bound (RFC 9449); nil if they are unbound, or if the list does not show
        /// it.
        package internal(set) var senderConstraint: SenderConstraint?
    }

    package let items: [Item]
    package let nextCursor: String?
}

extension SessionCursor {
    /// The cursor as an opaque text for the caller.
    ///
    /// The text is readable, because it contains only a time and a handle.
    package var text: String { Base64URL.encode(Array("\(moment.milliseconds).\(handle.text)".utf8)) }

    /// Parses the cursor of a request, or throws `invalid_request`.
    static func parse(_ text: String?) throws(BrokerProblem) -> SessionCursor? {
        guard let text else { return nil }
        guard let cursor = SessionCursor(text: text) else {
            throw BrokerProblem(.invalidRequest, errors: [FieldFault("cursor", .malformed)])
        }
        return cursor
    }

    /// Parses a cursor, or returns nil (SEC-98).
    package init?(text: String) {
        guard text.utf8.count <= 128, let bytes = Base64URL.decode(text),
            let plain = String(validating: bytes, as: UTF8.self), let dot = plain.firstIndex(of: "."),
            let time = Int64(plain[..<dot]), let handle = SessionHandle(String(plain[plain.index(after: dot)...]))
        else { return nil }
        self.init(moment: WallTime(milliseconds: time), handle: handle)
    }
}

/// A selection of sessions to list or to end.
package enum SessionSelector: Sendable, Equatable {
    case token(Digest)
    case handle(SessionHandle)
    case subject(Digest)
    /// All sessions of a subject except the session of this token digest and its children.
    case subjectExcept(Digest, current: Digest)
    case sid(Digest)
    /// The sessions, among those of the given clients, that a logout token names.
    ///
    /// If the token has a `sid`, it names the sessions with that `sid`, and the subject's sessions whose own id_token had no
    /// `sid`. A token without a `sid` names all sessions of the subject.
    case logout(sid: Digest?, subject: Digest?, clients: [Digest])
    case provider(Digest)
    case client(Digest)
    case all

    /// Whether the selector names exactly one session.
    ///
    /// The named session may be a child. For all other selectors, children are listed only after their parents.
    package var namesOne: Bool {
        switch self {
        case .token, .handle: true
        case .subject, .subjectExcept, .sid, .logout, .provider, .client, .all: false
        }
    }
}

/// A position in a list of sessions: after the session with this time and handle.
///
/// Live sessions are listed by their creation, ended sessions by their end.
package struct SessionCursor: Sendable, Equatable {
    package let moment: WallTime
    package let handle: SessionHandle

    package init(moment: WallTime, handle: SessionHandle) {
        self.moment = moment
        self.handle = handle
    }

    /// Creates the cursor that continues after this row.
    package init(after row: SessionRow) { self.init(moment: row.endedAt ?? row.createdAt, handle: row.handle) }
}

/// The state of the sessions that a listing shows.
package enum SessionState: String, Sendable, CaseIterable {
    case live
    /// Tombstones. A lapsed session becomes a tombstone a day after its lapse, when the sweeper buries it.
    case ended
}
