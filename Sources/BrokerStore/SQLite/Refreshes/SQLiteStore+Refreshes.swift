package import Broker
import GRDB

extension SQLiteStore {
    package func claimRefresh(_ claim: RefreshClaim) async throws(StoreFailure) -> RefreshClaimResult {
        guard endings.ending(claim.tokenDigest) == nil else { return .gone }
        let claimClock = claimClock
        return try await writer.write { database in
            let clock = claimClock()
            let moment = clock.moment
            guard
                var stored = try database.first(
                    RefreshSQL.marks, ["token": claim.tokenDigest.sql], { try StoredMarks(&$0, clock) }),
                stored.isLive(at: claim.now)
            else { return .gone }
            guard stored.tokenVersion == claim.tokenVersion else { return .moved }
            switch stored.marks.claim(claim.name, for: claim.lifetime, takesOver: claim.takesOver, at: moment) {
            case .busy(let rest): return .busy(for: rest)
            case .heldBack(let rest): return .heldBack(for: rest)
            case .granted(let again): if !again { stored.fence += 1 }
            }
            guard try database.change(RefreshSQL.mark, stored.values(claim.tokenDigest, clock)) == 1 else {
                return .gone
            }
            return .claimed(stored.marks.grant(fence: stored.fence, at: moment))
        }
    }

    package func renewRefresh(
        tokenDigest: Digest, fence: Int64, for lifetime: Duration
    ) async throws(StoreFailure) -> Bool {
        let (epoch, monotonic) = (epoch, monotonic)
        return try await writer.write { database in
            try database.change(
                RefreshSQL.renew,
                [
                    "claim_until": Optional(monotonic() + lifetime).sql, "token": tokenDigest.sql,
                    "fence": fence.databaseValue, "claim_epoch": epoch.databaseValue,
                ]) == 1
        }
    }

    package func refreshState(_ tokenDigest: Digest) async throws(StoreFailure) -> RefreshState? {
        let claimClock = claimClock
        let isEnding = endings.ending(tokenDigest) != nil
        return try await readers.read { database in
            let clock = claimClock()
            let stored = try database.first(RefreshSQL.marks, ["token": tokenDigest.sql]) {
                try StoredMarks(&$0, clock)
            }
            return stored.map { stored in
                RefreshState(
                    tokenVersion: stored.tokenVersion,
                    claimRest: stored.marks.claimUntil.map { $0 - clock.moment },
                    isEnded: stored.isEnded || isEnding)
            }
        }
    }

    package func commitRefresh(_ commit: RefreshCommit) async throws(StoreFailure) -> RefreshCommitResult {
        guard endings.ending(commit.tokenDigest) == nil else { return .ended }
        return try await writer.write { database in
            let values: Named<DatabaseValue> = [
                "answer_lost": commit.answerLost.databaseValue,
                "subject_unchecked": commit.subjectUnchecked.databaseValue,
                "tokens_key": commit.tokens.keyID.databaseValue, "tokens": commit.tokens.envelope.sql,
                "facts_key": commit.facts?.keyID.databaseValue ?? .null,
                "former_facts": commit.formerFacts?.envelope.sql ?? .null,
                "facts": commit.facts?.envelope.sql ?? .null, "token_expires_at": commit.tokenExpiresAt.sql,
                "refreshable": commit.refreshable.databaseValue, "expires_at": commit.expiresAt.sql,
                "token": commit.tokenDigest.sql, "token_version": commit.tokenVersion.databaseValue,
                "former_tokens": commit.formerTokens?.envelope.sql ?? .null,
            ]
            if try database.change(RefreshSQL.commit, values) == 1 {
                if let token = commit.targetToken { try database.store(token) }
                return .committed
            }
            // Read only these columns, so that damage in another column does not make every attempt to commit fail.
            return try database.first(RefreshSQL.standing, ["token": commit.tokenDigest.sql]) { columns in
                try columns.requireFormat()
                guard columns.optionalInteger() == nil else { return .ended }
                if commit.tokenVersion < (try columns.integer()) { return .outgrown }
                return try columns.integer() == commit.tokenVersion ? .changed : .superseded
            } ?? .ended
        }
    }

    package func releaseRefresh(_ release: RefreshRelease) async throws(StoreFailure) {
        let claimClock = claimClock
        try await writer.write { database in
            let clock = claimClock()
            guard
                var stored = try database.first(
                    RefreshSQL.marks, ["token": release.tokenDigest.sql], { try StoredMarks(&$0, clock) }),
                stored.tokenVersion == release.tokenVersion, stored.fence == release.fence
            else { return }
            stored.marks.release(release, at: clock.moment)
            try database.change(RefreshSQL.mark, stored.values(release.tokenDigest, clock))
        }
    }

    package func markSubjectChecked(tokenDigest: Digest, tokenVersion: Int64) async throws(StoreFailure) {
        try await writer.write { database in
            _ = try database.change(
                RefreshSQL.subjectChecked,
                ["token": tokenDigest.sql, "token_version": tokenVersion.databaseValue])
        }
    }

    package func condemnRefresh(
        tokenDigest: Digest, tokenVersion: Int64, fence: Int64, reason: EndReason, now: WallTime
    ) async throws(StoreFailure) -> Bool {
        guard endings.ending(tokenDigest) == nil else { return false }
        let note = noting(reason, now)
        return try await writer.write(committed: { if $0 { note([tokenDigest]) } }) { database in
            let values: Named = [
                "token": tokenDigest.sql, "token_version": tokenVersion.databaseValue, "fence": fence.databaseValue,
            ]
            guard let name = try database.first(RefreshSQL.condemnable, values, NamedSession.init) else {
                return false
            }
            return try database.end(name, reason, now)
        }
    }
}
