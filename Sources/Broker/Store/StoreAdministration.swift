/// Counts, moves and reseals rows, in the same way for every engine.
///
/// Rows are read in pages, in the order of their keys, so that other operations wait only for one page.
package protocol StoreAdministration: Sendable {
    /// Returns the number of rows of each kind.
    func rowCounts() async throws(StoreFailure) -> [StoredKind: Int]

    /// Counts the sessions that have neither ended nor lapsed.
    func liveSessions(now: WallTime) async throws(StoreFailure) -> Int

    /// Returns at most `limit` rows of a kind, in the order of their keys; each claim comes with its remaining time.
    func rows(of kind: StoredKind, after cursor: [UInt8]?, limit: Int) async throws(StoreFailure) -> StoredPage

    /// Inserts rows in one transaction; rows whose key exists are skipped, and audit records are always added.
    func insert(_ rows: [StoredRow]) async throws(StoreFailure)

    /// Reads at most `limit` values of a sealed column, in the order of their rows' keys.
    ///
    /// Returns those values that are sealed under another key than `keyID`.
    func sealedRows(
        of place: SealedPlace, notUnder keyID: String, after cursor: Digest?, limit: Int
    ) async throws(StoreFailure) -> SealedPage

    /// Replaces old envelopes by new ones, and returns the number of replacements.
    ///
    /// An envelope is replaced only if the old envelope is still stored, because a refresh may have stored newer tokens since
    /// the page was read.
    func reseal(_ rows: [ResealedRow]) async throws(StoreFailure) -> Int

    /// Returns, for each key id, the number of stored values that need this key.
    ///
    /// Only exchanges that were made since `exchangesSince` count, because the outcomes of older exchanges have expired.
    func keyUse(exchangesSince: WallTime) async throws(StoreFailure) -> [String: Int]
}

/// A store together with its administration.
package typealias AdministeredStore = BrokerStore & StoreAdministration

/// The kinds of rows that a store has, in the order in which a copy moves them.
package enum StoredKind: String, Sendable, CaseIterable {
    case logins, handoffs, registrations, exchanges, sessions, outbox, leases, seals, audit
    case logoutTokens = "logout_tokens"
    case audiences = "audience_tokens"
}

/// Rows of one kind, in the order of their keys.
package struct StoredPage: Sendable, Equatable {
    package var rows: [StoredRow]
    /// The key after which the next page begins; nil after the last page.
    package var next: [UInt8]?
    /// The number of rows on the page that cannot be read (damaged, or of a newer version).
    package var unreadable: Int

    package init(rows: [StoredRow], next: [UInt8]?, unreadable: Int = 0) {
        self.rows = rows
        self.next = next
        self.unreadable = unreadable
    }
}

/// A row of any kind, as it is moved from one store to another.
package enum StoredRow: Sendable, Equatable {
    case login(LoginRow)
    case handoff(HandoffRow)
    case registration(RegistrationRow)
    /// An exchange; its claim moves with its remaining time.
    case exchange(ExchangeRow)
    /// A session; the times in its refresh marks are relative to the time of reading.
    case session(SessionRow, RefreshMarks)
    case outbox(OutboxRow)
    case audience(AudienceRow)
    case logoutToken(Digest, until: WallTime)
    case lease(name: String, owner: String, until: WallTime)
    /// The number of values that a key has sealed.
    case seals(key: String, count: Int)
    case audit(AuditRow)
}

extension RefreshMarks {
    /// Returns the refresh marks with every time moved by `duration`.
    package func moved(by duration: Duration) -> RefreshMarks {
        var marks = self
        marks.claimUntil = claimUntil.map { $0 + duration }
        marks.takenOverAt = takenOverAt.map { $0 + duration }
        marks.holdUntil = holdUntil.map { $0 + duration }
        marks.firstEmptyAt = firstEmptyAt.map { $0 + duration }
        return marks
    }
}

/// A column that holds sealed values.
package enum SealedPlace: String, Sendable, CaseIterable {
    case facts, tokens, presence, logins, handoffs, registrations, outbox, audiences

    /// The kind of the sealed values in this column.
    package var kind: SealedKind {
        switch self {
        case .facts: .session
        case .tokens, .outbox: .tokens
        case .presence: .presence
        case .logins: .login
        case .handoffs: .outcome
        case .registrations: .registration
        case .audiences: .audience
        }
    }
}

/// A sealed value, with the row and the column that contain it.
package struct SealedRow: Sendable, Equatable {
    package let place: SealedPlace
    /// The row's key.
    package let key: Digest
    /// The row that the seal is bound to.
    ///
    /// For a value in the outbox, this is another row; for all other values, it is the row that contains the value.
    package let boundTo: Digest
    package let sealed: Sealed

    package init(place: SealedPlace, key: Digest, boundTo: Digest, sealed: Sealed) {
        self.place = place
        self.key = key
        self.boundTo = boundTo
        self.sealed = sealed
    }
}

/// A page of the sealed values in a column.
package struct SealedPage: Sendable, Equatable {
    package var rows: [SealedRow]
    /// The key after which the next page begins; nil after the last page.
    package var next: Digest?
    /// The number of values that were read.
    package var seen: Int

    package init(rows: [SealedRow], next: Digest?, seen: Int) {
        self.rows = rows
        self.next = next
        self.seen = seen
    }
}

/// A sealed value and its replacement, sealed with a newer key.
package struct ResealedRow: Sendable, Equatable {
    package let old: SealedRow
    package let new: Sealed

    package init(_ old: SealedRow, new: Sealed) {
        self.old = old
        self.new = new
    }
}
