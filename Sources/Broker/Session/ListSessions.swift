/// Lists a user's own sessions: "your devices".
package struct ListSessions: Sendable {
    private let context: BrokerContext

    package init(_ context: BrokerContext) { self.context = context }

    /// Returns a page of the owner's live sessions, newest first; `invalid_request` for a cursor that is none.
    package func list(
        for owner: LiveSession, cursor: String?, limit: Int = 50
    ) async throws(BrokerProblem) -> SessionPage {
        let own: SessionSelector =
            owner.ownsItselfAlone(context) ? .token(owner.tokenDigest) : .subject(owner.row.subject)
        return try await page(own, .live, current: owner.tokenDigest, cursor: cursor, limit: limit)
    }

    /// Returns a page of what a selector names, each live session with its children behind it; of those that belong to no key, where `isUnbound`: it may have fewer items, or
    /// none, and a cursor.
    ///
    /// `withTokens` opens what each has from its provider as well, and says how that is bound.
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

    /// Returns the item of a row, or nil for one that is not to be shown.
    private func item(_ row: SessionRow, _ current: Digest?, isUnbound: Bool) -> SessionPage.Item? {
        // A row that this process cannot open is left out, not ended: listing judges nobody.
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

    /// Returns the means by which a session's tokens are bound; nil where they are not, or where this process cannot tell.
    private func constraint(of row: SessionRow) -> SenderConstraint? {
        guard let sealed = row.tokens,
            let record = try? context.vault.open(sealed, as: .tokens, row: row.tokenDigest),
            let stored = try? StoredTokens(record: record)
        else { return nil }
        // The setting's word and the credential's are one.
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
        /// Whether it is the session that asked.
        package let current: Bool
        package let endedAt: WallTime?
        package let reason: EndReason?
        /// The means by which its tokens are bound (RFC 9449); nil where they are not, and in lists that do not tell.
        package internal(set) var senderConstraint: SenderConstraint?
    }

    package let items: [Item]
    package let nextCursor: String?
}

extension SessionCursor {
    /// The cursor as an opaque text.
    ///
    /// It holds a time and a handle, so there is nothing in it to protect.
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

/// Names sessions to list or end.
package enum SessionSelector: Sendable, Equatable {
    case token(Digest)
    case handle(SessionHandle)
    case subject(Digest)
    /// All of a subject's but the one of this token digest and its children.
    case subjectExcept(Digest, current: Digest)
    case sid(Digest)
    /// The sessions that a logout token names, among these clients': with a `sid` those that have it, and those of the
    /// subject whose own id_token had none; without a `sid` all of the subject's.
    case logout(sid: Digest?, subject: Digest?, clients: [Digest])
    case provider(Digest)
    case client(Digest)
    case all

    /// Whether it names one session by what is its alone: a child, too, where listings show children behind their parents.
    package var namesOne: Bool {
        switch self {
        case .token, .handle: true
        case .subject, .subjectExcept, .sid, .logout, .provider, .client, .all: false
        }
    }
}

/// The place where a listing goes on: after this time and handle.
///
/// Live sessions are listed by their creation, ended ones by their end.
package struct SessionCursor: Sendable, Equatable {
    package let moment: WallTime
    package let handle: SessionHandle

    package init(moment: WallTime, handle: SessionHandle) {
        self.moment = moment
        self.handle = handle
    }

    /// Creates the cursor that goes on after this row.
    package init(after row: SessionRow) { self.init(moment: row.endedAt ?? row.createdAt, handle: row.handle) }
}

/// The sessions that a listing shows.
package enum SessionState: String, Sendable, CaseIterable {
    case live
    /// Tombstones. A session that is past its times becomes one within half a minute, when it is swept.
    case ended
}
