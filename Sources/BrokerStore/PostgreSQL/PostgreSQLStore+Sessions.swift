package import Broker

extension PostgreSQLStore {
    package func session(tokenDigest: Digest) async throws(StoreFailure) -> SessionRow? {
        try await read(PostgreSQLSessionSQL.byToken, [.digest(tokenDigest)]) { rows in
            try rows.first { try SessionRow(&$0) }
        }
    }

    package func session(handle: SessionHandle) async throws(StoreFailure) -> SessionRow? {
        try await read(PostgreSQLSessionSQL.byHandle, [.text(handle.text)]) { rows in
            try rows.first { try SessionRow(&$0) }
        }
    }

    package func sessions(
        _ selector: SessionSelector, _ state: SessionState, after: SessionCursor?, limit: Int, now: WallTime
    ) async throws(StoreFailure) -> [SessionRow] {
        let limit = max(limit, 0)
        let lane = selector.isOfMany ? lanes.walks : lanes.scans
        var place = after.map { (moment: $0.moment, handle: $0.handle.text) }
        var found: [SessionRow] = []
        // Unreadable rows are left out, and further rows are read in their place.
        while found.count < limit {
            let wanted = limit - found.count
            let cursor = place.map { [Parameter.time($0.moment), .text($0.handle)] } ?? []
            let values =
                selector.parameters + cursor + (state == .live ? [.time(now)] : []) + [.integer(wanted)]
            let statement = PostgreSQLSessionSQL.page(selector, state, after: place != nil)
            let listed = try await run(lane, [BoundStatement(statement, values)], isWrite: false) { rows in
                try rows.map { row in
                    let place = (moment: try row.time(), handle: try row.text())
                    return (place: place, row: try? SessionRow(&row))
                }
            }
            found += listed.compactMap { $0.row }
            guard listed.count == wanted, let last = listed.last else { break }
            place = last.place
        }
        return found
    }

    package func children(of parents: [Digest], now: WallTime) async throws(StoreFailure) -> [SessionRow] {
        guard !parents.isEmpty else { return [] }
        let values: [Parameter] = [.list(of: .bytes, parents.map { .digest($0) }), .time(now)]
        return try await scan(PostgreSQLSessionSQL.children, values) { rows in
            rows.map { try? SessionRow(&$0) }.compactMap { $0 }
        }
    }

    package func insertChild(_ row: SessionRow, places: Int) async throws(StoreFailure) -> ChildInsertion {
        guard let lineage = row.lineage else { return .parentEnded }
        let values = row.parameters + Lineage.parameters(lineage) + [.integer(places)]
        let inserted = try await run(
            lanes.writes,
            [
                BoundStatement(PostgreSQLSessionSQL.lockParent, [.digest(lineage.parent)]),
                BoundStatement(PostgreSQLSessionSQL.insertChild, values),
            ], isWrite: true
        ) { rows -> ChildInsertion in
            var replaced: [Digest] = []
            var found = (parent: false, room: false)
            for row in try rows.map({ (try $0.truth(), try $0.truth(), try $0.optionalDigest()) }) {
                found = (row.0, row.1)
                if let token = row.2 { replaced.append(token) }
            }
            return !found.parent ? .parentEnded : found.room ? .made(replaced: replaced) : .full
        }
        if case .made(let replaced) = inserted { endings?.tell(replaced, .replaced) }
        return inserted
    }

    package func endSessions(
        _ selector: SessionSelector, reason: EndReason, now: WallTime, limit: Int
    ) async throws(StoreFailure) -> EndedBatch {
        let values = selector.parameters + [.text(reason.rawValue), .time(now), .integer(max(limit, 0))]
        let batch = try await write(PostgreSQLSessionSQL.end(selector), values) { rows -> EndedBatch in
            let named = try rows.first { try $0.small() } ?? 0
            let ended = try rows.map { row -> Digest? in
                _ = try row.integer()
                return try row.optionalDigest()
            }
            return EndedBatch(ended: ended.compactMap { $0 }, more: named == limit && limit > 0)
        }
        if batch.ended.isEmpty { try await confirm() } else { endings?.tell(batch.ended, reason) }
        return batch
    }

    package func slideSession(
        tokenDigest: Digest, lastUsedAt: WallTime, idleExpiresAt: WallTime, aliveAt: WallTime
    ) async throws(StoreFailure) {
        try await write(
            PostgreSQLSessionSQL.slide,
            [.digest(tokenDigest), .time(lastUsedAt), .time(idleExpiresAt), .time(aliveAt)]
        ) { rows in _ = try rows.first { try $0.requireFormat() } }
    }

    package func claimRefresh(_ claim: RefreshClaim) async throws(StoreFailure) -> RefreshClaimResult {
        let values: [Parameter] = [
            .digest(claim.tokenDigest), .integer(claim.tokenVersion), .bytes(claim.name.bytes),
            .duration(claim.lifetime),
            .truth(claim.takesOver), .time(claim.now), moment,
        ]
        return try await write(PostgreSQLSessionSQL.claim, values) { rows in
            try rows.first { try RefreshClaimResult(&$0) } ?? .gone
        }
    }

    package func renewRefresh(
        tokenDigest: Digest, fence: Int64, for lifetime: Duration
    ) async throws(StoreFailure) -> Bool {
        try await write(
            PostgreSQLSessionSQL.renew, [.digest(tokenDigest), .integer(fence), .duration(lifetime), moment]
        ) { $0.count == 1 }
    }

    package func refreshState(_ tokenDigest: Digest) async throws(StoreFailure) -> RefreshState? {
        try await read(PostgreSQLSessionSQL.state, [.digest(tokenDigest), moment]) { rows in
            try rows.first { row in
                try row.requireFormat()
                let version = try row.integer()
                let rest = row.optionalDuration()
                return RefreshState(tokenVersion: version, claimRest: rest, isEnded: try row.truth())
            }
        }
    }

    package func commitRefresh(_ commit: RefreshCommit) async throws(StoreFailure) -> RefreshCommitResult {
        let values: [Parameter] = [
            .digest(commit.tokenDigest), .integer(commit.tokenVersion), .text(commit.tokens.keyID),
            .bytes(commit.tokens.envelope), .text(commit.facts?.keyID), .bytes(commit.facts?.envelope),
            .time(commit.tokenExpiresAt), .truth(commit.refreshable), .time(commit.expiresAt),
            .truth(commit.subjectUnchecked), .truth(commit.answerLost), .bytes(commit.formerFacts?.envelope),
        ]
        let former = Parameter.bytes(commit.formerTokens?.envelope)
        let (statement, further): (Statement, [Parameter]) =
            if let token = commit.targetToken {
                (PostgreSQLSessionSQL.commitTargetToken, [former] + token.parameters)
            } else if commit.formerTokens != nil {
                (PostgreSQLSessionSQL.commitRotated, [former])
            } else {
                (PostgreSQLSessionSQL.commit, [])
            }
        let result = try await write(statement, values + further) { rows in
            try rows.first { row -> RefreshCommitResult in
                try row.requireFormat()
                let isEnded = try row.truth()
                if try row.truth() { return .committed }
                if isEnded { return .ended }
                if try row.truth() { return .outgrown }
                return try row.truth() ? .changed : .superseded
            } ?? .ended
        }
        if result != .committed { try await confirm() }
        return result
    }

    package func completeStepUp(_ commit: StepUpCommit) async throws(StoreFailure) -> StepUpCommitResult {
        let values: [Parameter] =
            [
                .digest(commit.exchange), .integer(commit.exchangeFence), .digest(commit.tokenDigest),
                .time(commit.now),
                .integer(commit.tokenVersion), .integer(commit.isNewGrant ? 1 : 0), .text(commit.tokens?.keyID),
                .bytes(commit.tokens?.envelope), .text(commit.facts.keyID), .bytes(commit.facts.envelope),
                .digest(commit.sid), .time(commit.tokenExpiresAt), .truth(commit.refreshable),
                .time(commit.idleExpiresAt),
            ] + commit.outbox.parameters + [.integer(commit.version)]
        var statements = [BoundStatement(PostgreSQLSessionSQL.stepUp, values)]
        // A statement sees only rows that were committed before it began. While it waits for the session's lock, another
        // transaction may store a target's first row. So take the lock in a statement before, and the step-up's statement
        // sees this row.
        if !commit.isNewGrant {
            statements.insert(BoundStatement(PostgreSQLSessionSQL.hold, [.digest(commit.tokenDigest)]), at: 0)
        }
        let result = try await run(lanes.writes, statements, isWrite: true) { rows in
            try rows.first { row -> StepUpCommitResult in
                try row.requireFormat()
                guard try row.truth() else { return .takenAway }
                guard try !row.truth() else { return .ended }
                return try row.truth() ? .committed : .moved
            } ?? .ended
        }
        // The result reports another transaction's write, so that write has to be durable.
        if result != .committed { try await confirm() }
        if result == .committed {
            endings?.tell(commit.isNewGrant ? .changed : .steppedUp, commit.tokenDigest)
        }
        return result
    }

    package func registerPresence(_ commit: PresenceCommit) async throws(StoreFailure) -> PresenceCommitResult {
        let values: [Parameter] =
            [.digest(commit.tokenDigest), .text(commit.sealed.keyID), .bytes(commit.sealed.envelope)]
            + commit.audit.parameters
        let result = try await write(PostgreSQLSessionSQL.registerPresence, values) { rows in
            try rows.first { row -> PresenceCommitResult in
                if try row.truth() { return .committed }
                return try PresenceCommitResult(&row)
            } ?? .ended
        }
        // The result reports another transaction's write, so that write has to be durable.
        if result != .committed { try await confirm() }
        if result == .committed { endings?.tell(.changed, commit.tokenDigest) }
        return result
    }

    package func releaseRefresh(_ release: RefreshRelease) async throws(StoreFailure) {
        try await write(
            PostgreSQLSessionSQL.release,
            [
                .digest(release.tokenDigest), .integer(release.tokenVersion), .integer(release.fence),
                .duration(release.holdBack), .truth(release.answerLost), .integer(release.emptyRefusal ? 1 : 0), moment,
            ])
    }

    package func markSubjectChecked(tokenDigest: Digest, tokenVersion: Int64) async throws(StoreFailure) {
        try await write(PostgreSQLSessionSQL.subjectChecked, [.digest(tokenDigest), .integer(tokenVersion)])
    }

    package func condemnRefresh(
        tokenDigest: Digest, tokenVersion: Int64, fence: Int64, reason: EndReason, now: WallTime
    ) async throws(StoreFailure) -> Bool {
        let values: [Parameter] = [
            .digest(tokenDigest), .integer(tokenVersion), .integer(fence), .text(reason.rawValue), .time(now),
        ]
        let isEnded = try await write(PostgreSQLSessionSQL.condemn, values) { $0.count == 1 }
        if isEnded { endings?.tell([tokenDigest], reason) }
        return isEnded
    }
}

extension SessionSelector {
    /// Whether the selector can match sessions of many users.
    ///
    /// Only operators use such selectors.
    fileprivate var isOfMany: Bool {
        switch self {
        case .token, .handle, .subject, .subjectExcept: false
        case .sid, .logout, .provider, .client, .all: true
        }
    }
}

extension RefreshClaimResult {
    /// Reads the result of `PostgreSQLSessionSQL.claim`.
    fileprivate init(_ columns: inout RowReader) throws {
        guard let verdict = PostgreSQLSessionSQL.Verdict(rawValue: try columns.small()) else {
            throw StoreFailure.unavailable("a claim has no verdict")
        }
        let claimFor = columns.optionalDuration()
        let heldFor = columns.optionalDuration()
        let fence = columns.optionalInteger()
        let takenOverFor = columns.optionalDuration()
        let takenOverBefore = try columns.truth()
        let answerLost = try columns.truth()
        let emptyRefusals = try columns.small()
        let emptyFor = columns.optionalDuration()
        switch verdict {
        case .newerFormat: throw StoreFailure.newerFormat
        case .gone: self = .gone
        case .moved: self = .moved
        case .busy: self = .busy(for: claimFor ?? .seconds(1))
        case .lapsed: self = .busy(for: .seconds(1))
        case .heldBack: self = .heldBack(for: heldFor ?? .seconds(1))
        case .again, .takenOver, .granted:
            guard let fence else { throw StoreFailure.unavailable("a claim was not written") }
            self = .claimed(
                RefreshGrant(
                    fence: fence, takenOverFor: takenOverFor, takenOverBefore: takenOverBefore, answerLost: answerLost,
                    emptyRefusals: emptyRefusals, emptyFor: emptyFor ?? .zero))
        }
    }
}
