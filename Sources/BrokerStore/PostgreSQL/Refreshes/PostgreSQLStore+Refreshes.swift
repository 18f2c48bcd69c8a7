package import Broker

extension PostgreSQLStore {
    package func claimRefresh(_ claim: RefreshClaim) async throws(StoreFailure) -> RefreshClaimResult {
        let values: [Parameter] = [
            .digest(claim.tokenDigest), .integer(claim.tokenVersion), .bytes(claim.name.bytes),
            .duration(claim.lifetime),
            .truth(claim.takesOver), .time(claim.now), moment,
        ]
        return try await write(PostgreSQLRefreshSQL.claim, values) { rows in
            try rows.first { try RefreshClaimResult(&$0) } ?? .gone
        }
    }

    package func renewRefresh(
        tokenDigest: Digest, fence: Int64, for lifetime: Duration
    ) async throws(StoreFailure) -> Bool {
        try await write(
            PostgreSQLRefreshSQL.renew, [.digest(tokenDigest), .integer(fence), .duration(lifetime), moment]
        ) { $0.count == 1 }
    }

    package func refreshState(_ tokenDigest: Digest) async throws(StoreFailure) -> RefreshState? {
        try await read(PostgreSQLRefreshSQL.state, [.digest(tokenDigest), moment]) { rows in
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
                (PostgreSQLRefreshSQL.commitTargetToken, [former] + token.parameters)
            } else if commit.formerTokens != nil {
                (PostgreSQLRefreshSQL.commitRotated, [former])
            } else {
                (PostgreSQLRefreshSQL.commit, [])
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

    package func releaseRefresh(_ release: RefreshRelease) async throws(StoreFailure) {
        try await write(
            PostgreSQLRefreshSQL.release,
            [
                .digest(release.tokenDigest), .integer(release.tokenVersion), .integer(release.fence),
                .duration(release.holdBack), .truth(release.answerLost), .integer(release.emptyRefusal ? 1 : 0), moment,
            ])
    }

    package func markSubjectChecked(tokenDigest: Digest, tokenVersion: Int64) async throws(StoreFailure) {
        try await write(PostgreSQLRefreshSQL.subjectChecked, [.digest(tokenDigest), .integer(tokenVersion)])
    }

    package func condemnRefresh(
        tokenDigest: Digest, tokenVersion: Int64, fence: Int64, reason: EndReason, now: WallTime
    ) async throws(StoreFailure) -> Bool {
        let values: [Parameter] = [
            .digest(tokenDigest), .integer(tokenVersion), .integer(fence), .text(reason.rawValue), .time(now),
        ]
        let isEnded = try await write(PostgreSQLRefreshSQL.condemn, values) { $0.count == 1 }
        if isEnded { endings?.tell([tokenDigest], reason) }
        return isEnded
    }
}

extension RefreshClaimResult {
    /// Reads the result of `PostgreSQLRefreshSQL.claim`.
    fileprivate init(_ columns: inout RowReader) throws {
        guard let verdict = PostgreSQLRefreshSQL.Verdict(rawValue: try columns.small()) else {
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
