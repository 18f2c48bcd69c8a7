import Broker

// Decodes the rows of every table from columns that both engines list in this order. The engines time claims differently, so
// each passes its own reader for these columns.

extension SessionRow {
    /// Reads the columns of a session.
    init(_ columns: inout some ColumnReader) throws {
        try columns.requireFormat()
        let tokenDigest = try columns.digest()
        let handle = try columns.sessionHandle()
        let subject = try columns.digest()
        let subjectAndClient = try columns.digest()
        let sid = try columns.optionalDigest()
        let provider = try columns.digest()
        let client = try columns.digest()
        let createdAt = try columns.time()
        let lastUsedAt = try columns.time()
        let idleExpiresAt = try columns.time()
        let expiresAt = try columns.time()
        let tokenExpiresAt = columns.optionalTime()
        let refreshable = try columns.truth()
        let tokenVersion = try columns.integer()
        let fence = try columns.integer()
        let subjectUnchecked = try columns.truth()
        let endedAt = columns.optionalTime()
        let reason = try columns.optionalText()
        // An unknown reason was written by a newer version.
        if let reason, EndReason(rawValue: reason) == nil { throw StoreFailure.newerFormat }
        let facts = try columns.sealed()
        let tokens = try columns.optionalSealed()
        let lineage = try Lineage(&columns)
        let presence = try columns.optionalSealed()
        let version = try columns.integer()
        self.init(
            tokenDigest: tokenDigest, handle: handle, subject: subject, subjectAndClient: subjectAndClient, sid: sid,
            provider: provider, client: client, createdAt: createdAt, lastUsedAt: lastUsedAt,
            idleExpiresAt: idleExpiresAt, expiresAt: expiresAt, tokenExpiresAt: tokenExpiresAt,
            refreshable: refreshable, tokenVersion: tokenVersion, fence: fence,
            subjectUnchecked: subjectUnchecked,
            endedAt: endedAt, endReason: reason.flatMap { EndReason(rawValue: $0) }, facts: facts,
            tokens: tokens, lineage: lineage,
            // The previous release leaves the presence key in tombstones.
            presence: endedAt == nil ? presence.map { StoredPresence($0) } : nil, version: version)
    }
}

extension Lineage {
    /// Reads `parent, place`; nil for a session without a parent.
    convenience init?(_ columns: inout some ColumnReader) throws {
        let parent = try columns.optionalDigest()
        let place = try columns.optionalDigest()
        guard let parent else { return nil }
        guard let place else { throw StoreFailure.unavailable("a row is damaged") }
        self.init(parent: parent, place: place)
    }
}

extension PresenceCommitResult {
    /// Reads `format`, whether the session is over, `presence_key` and `presence`, after the store refused to register a
    /// presence key.
    init(_ columns: inout some ColumnReader) throws {
        try columns.requireFormat()
        let isOver = try columns.truth()
        let sealed = try columns.optionalSealed()
        guard !isOver, let sealed else {
            self = .ended
            return
        }
        self = .standing(StoredPresence(sealed))
    }
}

extension SessionEnds {
    /// Reads the times that determine when and why a session has lapsed.
    init(_ columns: inout some ColumnReader) throws {
        self.init(
            idleExpiresAt: try columns.time(), expiresAt: try columns.time(),
            tokenExpiresAt: columns.optionalTime(),
            refreshable: try columns.truth())
    }
}

extension LoginRow {
    /// Reads the columns of a login.
    init(_ columns: inout some ColumnReader) throws {
        try columns.requireFormat()
        let state = try columns.digest()
        let loginTokenDigest = try columns.digest()
        let loginID = try columns.text()
        let createdAt = try columns.time()
        let expiresAt = try columns.time()
        guard let status = Status(rawValue: try columns.small()) else { throw StoreFailure.newerFormat }
        let exchange = try columns.optionalDigest()
        self.init(
            state: state, loginTokenDigest: loginTokenDigest, loginID: loginID, createdAt: createdAt,
            expiresAt: expiresAt,
            status: status, exchange: exchange, sealed: try columns.sealed())
    }
}

extension HandoffRow {
    /// Reads the columns of a handoff.
    init(_ columns: inout some ColumnReader) throws {
        try columns.requireFormat()
        self.init(
            login: try columns.digest(), key: try columns.digest(), createdAt: try columns.time(),
            expiresAt: try columns.time(), keptUntil: try columns.time(), sealed: try columns.sealed())
    }
}

extension RegistrationRow {
    /// Reads the columns of a registration.
    init(_ columns: inout some ColumnReader) throws {
        try columns.requireFormat()
        let key = try columns.digest()
        let loginTokenDigest = try columns.optionalDigest()
        let createdAt = try columns.time()
        let expiresAt = try columns.time()
        guard let status = Status(rawValue: try columns.small()) else { throw StoreFailure.newerFormat }
        let exchange = try columns.optionalDigest()
        let attempts = try columns.small()
        self.init(
            key: key, loginTokenDigest: loginTokenDigest, createdAt: createdAt, expiresAt: expiresAt, status: status,
            exchange: exchange, attempts: attempts, sealed: try columns.sealed())
    }
}

extension ExchangeRow {
    /// Reads the columns of an exchange.
    ///
    /// `claim` reads the last columns, which are the claim's name and its remaining time.
    init<Columns: ColumnReader>(
        _ columns: inout Columns, claim: (inout Columns) throws -> (name: ClaimID, for: Duration)
    ) throws {
        try columns.requireFormat()
        let key = try columns.digest()
        let proof = try columns.optionalDigest()
        let salt = try columns.bytes()
        let keyID = try columns.text()
        let fence = try columns.integer()
        let attempts = try columns.small()
        let createdAt = try columns.time()
        let outcome = try Outcome(&columns)
        let gate = try ExchangeGate(&columns)
        let claim = try claim(&columns)
        self.init(
            key: key, proof: proof, salt: salt, keyID: keyID, fence: fence, claim: claim.name,
            claimFor: claim.for,
            attempts: attempts, createdAt: createdAt, outcome: outcome, gate: gate)
    }
}

extension ExchangeRow.Outcome {
    /// Reads `outcome, outcome_digest, spent_reason`.
    init(_ columns: inout some ColumnReader) throws {
        let kind = try columns.integer()
        let digest = try columns.optionalDigest()
        let reason = columns.optionalInteger().flatMap { Int(exactly: $0) }
        switch (kind, digest, reason) {
        case (0, _, _): self = .calling
        case (1, _, _): self = .released
        case (2, let digest?, _): self = .session(digest)
        case (3, let digest?, _): self = .registration(digest)
        case (4, _, let reason?):
            guard let reason = ExchangeRow.SpentReason(rawValue: reason) else {
                throw StoreFailure.newerFormat
            }
            self = .spent(reason)
        default: throw StoreFailure.newerFormat
        }
    }
}

extension ExchangeGate {
    /// Reads `gate_kind, gate`.
    init(_ columns: inout some ColumnReader) throws {
        switch (try columns.integer(), try columns.optionalDigest()) {
        case (0, _): self = .none
        case (1, let state?): self = .login(state)
        case (2, let key?): self = .registration(key)
        default: throw StoreFailure.newerFormat
        }
    }
}

extension OutboxRow {
    /// Reads the columns of the outbox.
    init(_ columns: inout some ColumnReader) throws {
        try columns.requireFormat()
        self.init(
            id: try columns.digest(), boundTo: try columns.digest(), tokens: try columns.sealed(),
            createdAt: try columns.time(), nextAttemptAt: try columns.time(),
            attempts: try columns.small())
    }
}

extension AudienceRow {
    /// The columns that `init` reads, which have the same names in both engines.
    static let columns = "format, key, session, version, stored_at, used_at, sealed_key, sealed"

    /// Reads the columns of a session's token for another API.
    init(_ columns: inout some ColumnReader) throws {
        try columns.requireFormat()
        self.init(
            key: try columns.digest(), session: try columns.digest(), version: try columns.integer(),
            storedAt: try columns.time(), usedAt: try columns.time(), tokens: try columns.sealed())
    }
}

extension StoredRow {
    /// Reads a row of the given kind.
    ///
    /// `exchange` reads an exchange with its claim, and `marks` the columns behind a session's.
    init<Columns: ColumnReader>(
        _ kind: StoredKind, _ columns: inout Columns, exchange: (inout Columns) throws -> ExchangeRow,
        marks: (inout Columns) throws -> RefreshMarks
    ) throws {
        switch kind {
        case .logins: self = .login(try LoginRow(&columns))
        case .handoffs: self = .handoff(try HandoffRow(&columns))
        case .registrations: self = .registration(try RegistrationRow(&columns))
        case .exchanges: self = .exchange(try exchange(&columns))
        case .sessions: self = .session(try SessionRow(&columns), try marks(&columns))
        case .outbox: self = .outbox(try OutboxRow(&columns))
        case .audiences: self = .audience(try AudienceRow(&columns))
        case .leases:
            try columns.requireFormat()
            self = .lease(name: try columns.text(), owner: try columns.text(), until: try columns.time())
        case .seals:
            try columns.requireFormat()
            self = .seals(key: try columns.text(), count: try columns.small())
        case .audit:
            try columns.requireFormat()
            self = .audit(
                AuditRow(
                    at: try columns.time(), actor: try columns.text(), action: try columns.text(),
                    target: try columns.text(), outcome: try columns.text()))
        case .logoutTokens:
            try columns.requireFormat()
            self = .logoutToken(try columns.digest(), until: try columns.time())
        }
    }
}

/// The number of an audit record as a key: bytes that sort in the same order.
extension Int64 {
    /// The number as eight bytes, the most significant first.
    ///
    /// From zero upwards the bytes sort in the numbers' order.
    package var bigEndianBytes: [UInt8] {
        (0..<8).map { UInt8(truncatingIfNeeded: self >> Int64((7 - $0) * 8)) }
    }

    /// Reads the bytes that `bigEndianBytes` wrote; nil for any other length.
    package init?(bigEndianBytes bytes: [UInt8]) {
        guard bytes.count == 8 else { return nil }
        self = bytes.reduce(0) { $0 << 8 | Int64($1) }
    }
}

/// The columns of a sealed value, which have the same names in both engines.
struct SealedColumn {
    let table: String
    /// The column that contains the row's key.
    let key: String
    /// The column that contains the digest which the seal is bound to.
    let boundTo: String
    /// The column that contains the id of the ring's key.
    let keyID: String
    let envelope: String

    init(of place: SealedPlace) {
        (table, key, boundTo, keyID, envelope) =
            switch place {
            case .facts: ("sessions", "token", "token", "facts_key", "facts")
            case .tokens: ("sessions", "token", "token", "tokens_key", "tokens")
            case .presence: ("sessions", "token", "token", "presence_key", "presence")
            case .logins: ("logins", "state", "state", "sealed_key", "sealed")
            case .handoffs: ("handoffs", "login", "key", "sealed_key", "sealed")
            case .registrations: ("registrations", "key", "key", "sealed_key", "sealed")
            case .outbox: ("outbox", "key", "bound_to", "tokens_key", "tokens")
            case .audiences: ("audience_tokens", "key", "key", "sealed_key", "sealed")
            }
    }
}

extension ColumnReader {
    /// Reads one line of a page of sealed values, which is the row's key and its sealed value.
    ///
    /// The value is nil if a newer version wrote the row, or if the value is already sealed with the right key.
    mutating func sealedValue(of place: SealedPlace) throws -> (key: Digest, row: SealedRow?) {
        let isKnown = try integer() <= Self.rowFormat
        let key = try digest()
        let boundTo = try digest()
        let sealed = try optionalSealed()
        guard isKnown, let sealed else { return (key, nil) }
        return (key, SealedRow(place: place, key: key, boundTo: boundTo, sealed: sealed))
    }
}

extension SealedPage {
    /// Creates a page from the lines that a query with this limit returned.
    init(_ listed: [(key: Digest, row: SealedRow?)], limit: Int) {
        self.init(
            rows: listed.compactMap(\.row), next: listed.count < limit ? nil : listed.last?.key,
            seen: listed.count)
    }
}

/// A reader of a row, column by column in the query's order, for any engine.
///
/// An unexpected column is an error and never a trap, because other programs may have written it. Engines read the stored
/// forms, and this file interprets them. The decoding functions are generic, so the compiler specialises them for each engine.
protocol ColumnReader {
    /// The newest format of rows that this version reads.
    static var rowFormat: Int64 { get }

    /// Reads an integer of any width, or a truth value.
    mutating func optionalInteger() -> Int64?
    mutating func optionalBytes() throws -> [UInt8]?
    mutating func optionalText() throws -> String?
}

extension ColumnReader {
    private func damaged() -> StoreFailure { .unavailable("a row is damaged") }

    mutating func integer() throws -> Int64 {
        guard let value = optionalInteger() else { throw damaged() }
        return value
    }

    mutating func small() throws -> Int {
        guard let value = Int(exactly: try integer()) else { throw damaged() }
        return value
    }

    mutating func truth() throws -> Bool { try integer() != 0 }
    mutating func time() throws -> WallTime { WallTime(milliseconds: try integer()) }
    mutating func optionalTime() -> WallTime? { optionalInteger().map { WallTime(milliseconds: $0) } }
    mutating func duration() throws -> Duration { .milliseconds(try integer()) }
    mutating func optionalDuration() -> Duration? { optionalInteger().map { .milliseconds($0) } }

    mutating func bytes() throws -> [UInt8] {
        guard let bytes = try optionalBytes() else { throw damaged() }
        return bytes
    }

    mutating func digest() throws -> Digest {
        guard let digest = Digest(try bytes()) else { throw damaged() }
        return digest
    }

    mutating func optionalDigest() throws -> Digest? {
        guard let bytes = try optionalBytes() else { return nil }
        guard let digest = Digest(bytes) else { throw damaged() }
        return digest
    }

    mutating func text() throws -> String {
        guard let text = try optionalText() else { throw damaged() }
        return text
    }

    mutating func sessionHandle() throws -> SessionHandle {
        guard let handle = SessionHandle(try text()) else { throw damaged() }
        return handle
    }

    mutating func sealed() throws -> Sealed { Sealed(keyID: try text(), envelope: try bytes()) }

    mutating func optionalSealed() throws -> Sealed? {
        let keyID = try optionalText()
        let envelope = try optionalBytes()
        guard let keyID, let envelope else { return nil }
        return Sealed(keyID: keyID, envelope: envelope)
    }

    /// Reads the row's format, which is every query's first column.
    ///
    /// Rows of a newer format are left alone (SEC-130).
    mutating func requireFormat() throws {
        guard try integer() <= Self.rowFormat else { throw StoreFailure.newerFormat }
    }
}
