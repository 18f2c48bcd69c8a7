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
        var outcome = try Outcome(&columns)
        let gate = try ExchangeGate(&columns)
        let imported = try ImportMarks(&columns)
        let end = try SpentReason(importEnd: &columns)
        let claim = try claim(&columns)
        // Only an import leads to another exchange, and only another exchange makes a registration.
        if case .registration(let key) = outcome, imported != nil { outcome = .continued(key) }
        self.init(
            key: key, proof: proof, salt: salt, keyID: keyID, fence: fence, claim: claim.name,
            claimFor: claim.for,
            attempts: attempts, createdAt: createdAt, outcome: end.map { .spent($0) } ?? outcome, gate: gate,
            imported: imported)
    }
}

extension ImportMarks {
    /// Reads `kept_until, pair_kept_at, refusals, first_refused_at`; nil for a code.
    init?(_ columns: inout some ColumnReader) throws {
        let keptUntil = columns.optionalTime()
        let pairKeptAt = columns.optionalTime()
        let refusals = try columns.small()
        let firstRefusedAt = columns.optionalTime()
        guard let keptUntil else { return nil }
        self.init(
            keptUntil: keptUntil, pairKeptAt: pairKeptAt, refusals: refusals, firstRefusedAt: firstRefusedAt)
    }
}

extension ExchangeRow.SpentReason {
    /// The first reason that only imports have.
    private static let firstImportEnd = Self.grantRevoked

    /// The reason in the column `import_end`; nil for a reason that a code may have, too.
    var importEnd: Self? { rawValue >= Self.firstImportEnd.rawValue ? self : nil }

    /// The reason in the column `spent_reason`.
    ///
    /// Release 0.1.0 reads only this column, and has only the reasons of codes.
    var olderReason: Self {
        switch self {
        case .grantRevoked, .unknownSession: .rejected
        case .notBound: .providerError
        case .refreshLost, .expired: .unknown
        default: self
        }
    }

    /// Reads `import_end`; nil unless an import was spent for a reason that only imports have.
    fileprivate init?(importEnd columns: inout some ColumnReader) throws {
        guard let value = columns.optionalInteger() else { return nil }
        guard let reason = Int(exactly: value).flatMap(Self.init(rawValue:)) else { throw StoreFailure.newerFormat }
        self = reason
    }
}

extension ImportPair {
    /// The columns that `init` reads, which have the same names in both engines.
    static let columns = "format, key, sealed_key, sealed"

    /// Reads the kept pair of an import.
    init(_ columns: inout some ColumnReader) throws {
        try columns.requireFormat()
        self.init(key: try columns.digest(), tokens: try columns.sealed())
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

extension TargetTokenRow {
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
        case .targetTokens: self = .targetToken(try TargetTokenRow(&columns))
        case .importPairs: self = .importPair(try ImportPair(&columns))
        case .importGrants:
            try columns.requireFormat()
            self = .importGrant(try columns.digest(), at: try columns.time())
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

extension SealedPage {
    /// Creates a page from the lines that a query with this limit returned.
    init(_ listed: [(key: Digest, row: SealedRow?)], limit: Int) {
        self.init(
            rows: listed.compactMap(\.row), next: listed.count < limit ? nil : listed.last?.key,
            seen: listed.count)
    }
}
