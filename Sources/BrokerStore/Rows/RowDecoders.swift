import Broker

// The rows of every table, from the columns that both engines list in this order. Where engines differ, in how a claim is
// timed, they bring what reads it.

extension SessionRow {
    /// Reads the columns of a session.
    init(_ columns: inout some ColumnReader) throws {
        try columns.requireFormat()
        let token = try columns.digest()
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
        // A reason that this version does not know was written by a newer one.
        if let reason, EndReason(rawValue: reason) == nil { throw StoreFailure.newerFormat }
        let facts = try columns.sealed()
        self.init(
            token: token, handle: handle, subject: subject, subjectAndClient: subjectAndClient, sid: sid,
            provider: provider, client: client, createdAt: createdAt, lastUsedAt: lastUsedAt,
            idleExpiresAt: idleExpiresAt, expiresAt: expiresAt, tokenExpiresAt: tokenExpiresAt,
            refreshable: refreshable, tokenVersion: tokenVersion, fence: fence,
            subjectUnchecked: subjectUnchecked,
            endedAt: endedAt, endReason: reason.flatMap { EndReason(rawValue: $0) }, facts: facts,
            tokens: try columns.optionalSealed())
    }
}

extension SessionEnds {
    /// Reads what it is told by why a session has lapsed.
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
        let loginToken = try columns.digest()
        let loginID = try columns.text()
        let createdAt = try columns.time()
        let expiresAt = try columns.time()
        guard let status = Status(rawValue: try columns.small()) else { throw StoreFailure.newerFormat }
        let exchange = try columns.optionalDigest()
        self.init(
            state: state, loginToken: loginToken, loginID: loginID, createdAt: createdAt,
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
        let loginToken = try columns.optionalDigest()
        let createdAt = try columns.time()
        let expiresAt = try columns.time()
        guard let status = Status(rawValue: try columns.small()) else { throw StoreFailure.newerFormat }
        let exchange = try columns.optionalDigest()
        let attempts = try columns.small()
        self.init(
            key: key, loginToken: loginToken, createdAt: createdAt, expiresAt: expiresAt, status: status,
            exchange: exchange, attempts: attempts, sealed: try columns.sealed())
    }
}

extension ExchangeRow {
    /// Reads the columns of an exchange; `claim` reads the last of them: the claim's name, and how long it still stands.
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

extension StoredRow {
    /// Reads a row of a kind; `exchange` reads one with its claim, `marks` what follows a session's columns.
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
