package import Broker

extension PostgreSQLStore {
    package func claimRefresh(_ claim: RefreshClaim) async throws(StoreFailure) -> RefreshClaimResult {
        let values: Named<Parameter> = [
            "token": .digest(claim.tokenDigest), "token_version": .integer(claim.tokenVersion),
            "claim": .bytes(claim.name.bytes), "lifetime": .duration(claim.lifetime),
            "takes_over": .truth(claim.takesOver), "now": .time(claim.now), "moment": moment,
        ]
        return try await write(PostgreSQLRefreshSQL.claim, values) { rows in
            try rows.first { try RefreshClaimResult(&$0) } ?? .gone
        }
    }

    package func renewRefresh(
        tokenDigest: Digest, fence: Int64, for lifetime: Duration
    ) async throws(StoreFailure) -> Bool {
        try await write(
            PostgreSQLRefreshSQL.renew,
            [
                "token": .digest(tokenDigest), "fence": .integer(fence), "lifetime": .duration(lifetime),
                "moment": moment,
            ]
        ) { $0.count == 1 }
    }

    package func refreshState(_ tokenDigest: Digest) async throws(StoreFailure) -> RefreshState? {
        try await read(PostgreSQLRefreshSQL.state, ["token": .digest(tokenDigest), "moment": moment]) { rows in
            try rows.first { row in
                try row.requireFormat()
                let version = try row.integer()
                let rest = row.optionalDuration()
                return RefreshState(tokenVersion: version, claimRest: rest, isEnded: try row.truth())
            }
        }
    }

    package func commitRefresh(_ commit: RefreshCommit) async throws(StoreFailure) -> RefreshCommitResult {
        let values: Named<Parameter> = [
            "token": .digest(commit.tokenDigest), "token_version": .integer(commit.tokenVersion),
            "tokens_key": .text(commit.tokens.keyID), "tokens": .bytes(commit.tokens.envelope),
            "facts_key": .text(commit.facts?.keyID), "facts": .bytes(commit.facts?.envelope),
            "token_expires_at": .time(commit.tokenExpiresAt), "refreshable": .truth(commit.refreshable),
            "expires_at": .time(commit.expiresAt), "subject_unchecked": .truth(commit.subjectUnchecked),
            "answer_lost": .truth(commit.answerLost), "former_facts": .bytes(commit.formerFacts?.envelope),
        ]
        let former: Named<Parameter> = ["former_tokens": .bytes(commit.formerTokens?.envelope)]
        let (statement, further): (Statement, Named<Parameter>) =
            if let token = commit.targetToken {
                (PostgreSQLRefreshSQL.commitTargetToken, former + token.storedParameters)
            } else if commit.formerTokens != nil {
                (PostgreSQLRefreshSQL.commitRotated, former)
            } else {
                (PostgreSQLRefreshSQL.commit, [:])
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
                "token": .digest(release.tokenDigest), "token_version": .integer(release.tokenVersion),
                "fence": .integer(release.fence), "hold_back": .duration(release.holdBack),
                "answer_lost": .truth(release.answerLost), "empty_refusals": .integer(release.emptyRefusal ? 1 : 0),
                "moment": moment,
            ])
    }

    package func markSubjectChecked(tokenDigest: Digest, tokenVersion: Int64) async throws(StoreFailure) {
        try await write(
            PostgreSQLRefreshSQL.subjectChecked,
            ["token": .digest(tokenDigest), "token_version": .integer(tokenVersion)])
    }

    package func condemnRefresh(
        tokenDigest: Digest, tokenVersion: Int64, fence: Int64, reason: EndReason, now: WallTime
    ) async throws(StoreFailure) -> Bool {
        let values: Named<Parameter> = [
            "token": .digest(tokenDigest), "token_version": .integer(tokenVersion), "fence": .integer(fence),
            "reason": .text(reason.rawValue), "now": .time(now),
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
