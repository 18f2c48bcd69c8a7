package import Broker

extension PostgreSQLStore {
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
        var statements = [BoundStatement(PostgreSQLStepUpSQL.stepUp, values)]
        // A statement sees only rows that were committed before it began. While it waits for the session's lock, another
        // transaction may store a target's first row. So take the lock in a statement before, and the step-up's statement
        // sees this row.
        if !commit.isNewGrant {
            statements.insert(BoundStatement(PostgreSQLStepUpSQL.hold, [.digest(commit.tokenDigest)]), at: 0)
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
