package import Broker

extension PostgreSQLStore {
    package func completeStepUp(_ commit: StepUpCommit) async throws(StoreFailure) -> StepUpCommitResult {
        let values: Named<Parameter> =
            [
                "exchange": .digest(commit.exchange), "exchange_fence": .integer(commit.exchangeFence),
                "token": .digest(commit.tokenDigest), "now": .time(commit.now),
                "token_version": .integer(commit.tokenVersion), "is_new_grant": .integer(commit.isNewGrant ? 1 : 0),
                "tokens_key": .text(commit.tokens?.keyID), "tokens": .bytes(commit.tokens?.envelope),
                "facts_key": .text(commit.facts.keyID), "facts": .bytes(commit.facts.envelope),
                "sid": .digest(commit.sid), "token_expires_at": .time(commit.tokenExpiresAt),
                "refreshable": .truth(commit.refreshable), "idle_expires_at": .time(commit.idleExpiresAt),
            ] + commit.outbox.parameters + ["version": .integer(commit.version)]
        var statements = [try BoundStatement(PostgreSQLStepUpSQL.stepUp, values)]
        // A statement sees only rows that were committed before it began. While it waits for the session's lock, another
        // transaction may store a target's first row. So take the lock in a statement before, and the step-up's statement
        // sees this row.
        if !commit.isNewGrant {
            let hold = try BoundStatement(PostgreSQLStepUpSQL.hold, ["token": .digest(commit.tokenDigest)])
            statements.insert(hold, at: 0)
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
        let values: Named<Parameter> =
            [
                "token": .digest(commit.tokenDigest), "presence_key": .text(commit.sealed.keyID),
                "presence": .bytes(commit.sealed.envelope),
            ] + commit.audit.parameters
        let result = try await write(PostgreSQLStepUpSQL.registerPresence, values) { rows in
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
}
