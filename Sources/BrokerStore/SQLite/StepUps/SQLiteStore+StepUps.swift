package import Broker
import GRDB

extension SQLiteStore {
    package func completeStepUp(_ commit: StepUpCommit) async throws(StoreFailure) -> StepUpCommitResult {
        let isEnding = endings.ending(commit.tokenDigest) != nil
        return try await writer.write { database in
            let key: Named = ["key": commit.exchange.sql, "fence": commit.exchangeFence.databaseValue]
            guard try database.first(StepUpSQL.owned, key, { _ in true }) == true else { return .takenAway }
            guard !isEnding,
                let versions = try database.first(
                    StepUpSQL.steppingUp, ["token": commit.tokenDigest.sql], { try $0.versionsOfUnended() }),
                let versions
            else { return .ended }
            guard versions == (commit.tokenVersion, commit.version) else { return .moved }
            try database.change(ExchangeSQL.settle, ExchangeRow.Outcome.session(commit.tokenDigest).values + key)
            try database.change(StepUpSQL.stepUp, commit.values)
            try database.change(StepUpSQL.dropTargetTokens, ["session": commit.tokenDigest.sql])
            for row in commit.outbox { try database.change(UpkeepSQL.addOutbox, row.values) }
            return .committed
        }
    }

    package func registerPresence(_ commit: PresenceCommit) async throws(StoreFailure) -> PresenceCommitResult {
        guard endings.ending(commit.tokenDigest) == nil else { return .ended }
        return try await writer.write { database in
            let (token, sealed) = (commit.tokenDigest.sql, commit.sealed)
            let values: Named = [
                "presence_key": sealed.keyID.databaseValue, "presence": sealed.envelope.sql,
                "version_step": 1.databaseValue, "token": token,
            ]
            guard try database.change(StepUpSQL.registerPresence, values) == 0 else {
                try database.change(UpkeepSQL.appendAudit, commit.audit.values)
                return .committed
            }
            return try database.first(StepUpSQL.standingPresence, ["token": token]) {
                try PresenceCommitResult(&$0)
            } ?? .ended
        }
    }
}

extension Columns {
    /// Reads `StepUpSQL.steppingUp`: the token version and the version of the session; nil if the session has ended.
    fileprivate mutating func versionsOfUnended() throws -> (tokens: Int64, session: Int64)? {
        try requireFormat()
        let endedAt = optionalTime()
        let versions = (try integer(), try integer())
        return endedAt == nil ? versions : nil
    }
}

extension StepUpCommit {
    /// The values of `StepUpSQL.stepUp`.
    fileprivate var values: Named<DatabaseValue> {
        [
            "is_new_grant": (isNewGrant ? 1 : 0).databaseValue, "tokens_key": tokens?.keyID.databaseValue ?? .null,
            "tokens": tokens?.envelope.sql ?? .null, "facts_key": facts.keyID.databaseValue,
            "facts": facts.envelope.sql, "sid": sid.sql, "token_expires_at": tokenExpiresAt.sql,
            "refreshable": refreshable.databaseValue, "now": now.sql, "idle_expires_at": idleExpiresAt.sql,
            "token": tokenDigest.sql, "token_version": tokenVersion.databaseValue,
        ]
    }
}
