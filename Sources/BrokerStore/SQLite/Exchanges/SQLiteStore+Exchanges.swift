package import Broker
import GRDB

extension SQLiteStore {
    package func claimExchange(
        _ row: ExchangeRow, maximumAttempts: Int, sparing spared: SparedClaims
    ) async throws(StoreFailure) -> ExchangeClaimResult {
        let pending = pendingLogins
        let claimClock = claimClock
        return try await writer.write { database in
            let clock = claimClock()
            let gates = Gates(database: database, pending: pending)
            // The insertion decides which caller owns the exchange. If the gate is closed, the new row is withdrawn in the
            // same transaction.
            if try database.change(ExchangeSQL.insert, row.values(clock)) == 1 {
                if try gates.take(row.gate, for: row.key, now: row.createdAt) { return .claimed(row) }
                try database.change(ExchangeSQL.withdraw, ["key": row.key.sql, "fence": row.fence.databaseValue])
                return .gateClosed
            }
            guard
                let standing = try database.first(
                    ExchangeSQL.byKey, ["key": row.key.sql], { try ExchangeRow(&$0, clock) })
            else { throw StoreFailure.unavailable("an exchange vanished") }
            // The caller repeats its own claim because the response was lost.
            if standing.outcome == .calling, standing.claim == row.claim { return .claimed(standing) }
            if let spent = try database.first(
                ExchangeSQL.lapse,
                [
                    "key": row.key.sql, "claim_epoch": clock.epoch.databaseValue, "moment": Optional(clock.moment).sql,
                    "spared_from": spared.lapsedFor.map { clock.moment - $0.upperBound }.sql,
                    "spared_to": spared.lapsedFor.map { clock.moment - $0.lowerBound }.sql,
                ],
                { try ExchangeRow(&$0, clock) })
            {
                try gates.close(spent.gate)
                return .existing(spent)
            }
            guard standing.outcome == .released, standing.hasProof(of: row), standing.attempts < maximumAttempts else {
                return .existing(standing)
            }
            guard try gates.take(row.gate, for: row.key, now: row.createdAt) else { return .gateClosed }
            let values: Named<DatabaseValue> =
                ["claim_until": Optional(clock.moment + row.claimFor).sql] + row.gate.values
                + [
                    "claim": row.claim.bytes.sql, "claim_epoch": clock.epoch.databaseValue, "key": row.key.sql,
                    "fence": standing.fence.databaseValue, "most_attempts": maximumAttempts.databaseValue,
                ]
            guard let claimed = try database.first(ExchangeSQL.claimAgain, values, { try ExchangeRow(&$0, clock) })
            else {
                throw StoreFailure.unavailable("an exchange changed")
            }
            return .claimed(claimed)
        }
    }

    package func exchange(_ key: Digest) async throws(StoreFailure) -> ExchangeRow? {
        let claimClock = claimClock
        return try await readers.read { database in
            let clock = claimClock()
            return try database.first(ExchangeSQL.byKey, ["key": key.sql]) { try ExchangeRow(&$0, clock) }
        }
    }

    package func renewExchange(
        _ key: Digest, fence: Int64, for lifetime: Duration
    ) async throws(StoreFailure) -> Bool {
        let (epoch, monotonic) = (epoch, monotonic)
        return try await writer.write { database in
            try database.change(
                ExchangeSQL.renew,
                [
                    "claim_until": Optional(monotonic() + lifetime).sql, "key": key.sql, "fence": fence.databaseValue,
                    "claim_epoch": epoch.databaseValue,
                ]) == 1
        }
    }

    package func releaseExchange(
        _ key: Digest, fence: Int64, countingAttempt: Bool
    ) async throws(StoreFailure) -> Bool {
        let pending = pendingLogins
        return try await writer.write { database in
            let values: Named = [
                "uncounted": (countingAttempt ? 0 : 1).databaseValue, "key": key.sql, "fence": fence.databaseValue,
            ]
            guard let gate = try database.first(ExchangeSQL.release, values, { try ExchangeGate(&$0) }) else {
                return false
            }
            try Gates(database: database, pending: pending).giveBack(gate, of: key)
            return true
        }
    }

    package func settleExchange(
        _ key: Digest, fence: Int64, outcome: ExchangeRow.Outcome, outbox: [OutboxRow], registration: RegistrationRow?
    ) async throws(StoreFailure) -> Bool {
        let pending = pendingLogins
        return try await writer.write { database in
            for row in outbox { try database.change(UpkeepSQL.addOutbox, row.values) }
            let values = outcome.values + ["key": key.sql, "fence": fence.databaseValue]
            guard let gate = try database.first(ExchangeSQL.settle, values, { try ExchangeGate(&$0) }) else {
                return false
            }
            var reopened = false
            if outcome == .spent(.registrationRejected), case .registration(let registration) = gate {
                reopened = try database.change(RegistrationSQL.resubmit, ["key": registration.sql]) == 1
            }
            if !reopened { try Gates(database: database, pending: pending).close(gate) }
            if let registration { try database.change(RegistrationSQL.insert, registration.values) }
            return true
        }
    }

    package func completeExchange(
        _ key: Digest, fence: Int64, session: SessionRow, replacing: Digest?, sessionLimit: Int
    ) async throws(StoreFailure) -> EndedSessions? {
        let pending = pendingLogins
        let (replaced, beyond) = (noting(.replaced, session.createdAt), noting(.sessionLimit, session.createdAt))
        // The 201 promises the new session only. So the response is sent before the endings of the older sessions are in the
        // endings file.
        let note: @Sendable (EndedSessions?) -> Void = { ended in
            replaced(ended?.replaced ?? [])
            beyond(ended?.beyondLimit ?? [])
        }
        return try await writer.write(committed: note) { database in
            let values =
                ExchangeRow.Outcome.session(session.tokenDigest).values
                + ["key": key.sql, "fence": fence.databaseValue]
            guard let gate = try database.first(ExchangeSQL.settle, values, { try ExchangeGate(&$0) }) else {
                return nil
            }
            if case .registration = gate { try Gates(database: database, pending: pending).close(gate) }
            let now = session.createdAt
            var ended = EndedSessions()
            if let replacing {
                ended.replaced = try database.endSessions(.token(replacing), .replaced, now, limit: 1).ended
            }
            let excess = try database.rows(
                ExchangeSQL.beyondLimit,
                [
                    "subject_and_client": session.subjectAndClient.sql, "now": now.sql,
                    "others": max(sessionLimit - 1, 0).databaseValue,
                ],
                NamedSession.init)
            for name in excess where try database.end(name, .sessionLimit, now) {
                if let tokenDigest = name.tokenDigest { ended.beyondLimit.append(tokenDigest) }
            }
            try database.change(SessionSQL.insert, session.values)
            return ended
        }
    }
}

/// Takes, releases and closes the gate of an exchange, inside the exchange's transaction.
private struct Gates {
    let database: Database
    let pending: PendingLoginCount

    func take(_ gate: ExchangeGate, for key: Digest, now: WallTime) throws -> Bool {
        switch gate {
        case .none: return true
        case .login(let state):
            let values: Named = ["exchange": key.sql, "state": state.sql, "now": now.sql]
            let expiresAt = try database.first(LoginSQL.take, values) { try $0.time() }
            guard let expiresAt else { return false }
            pending.removed(expiresAt: expiresAt)
            try database.change(
                HandoffSQL.keepLonger,
                ["kept_until": now.advanced(by: RetentionPeriods.spent).sql, "login": state.sql])
            return true
        case .registration(let registration):
            let values: Named = ["exchange": key.sql, "key": registration.sql, "now": now.sql]
            return try database.change(RegistrationSQL.take, values) == 1
        }
    }

    func giveBack(_ gate: ExchangeGate, of key: Digest) throws {
        switch gate {
        case .none: break
        case .login(let state):
            let values: Named = ["state": state.sql, "exchange": key.sql]
            let expiresAt = try database.first(LoginSQL.giveBack, values) { try $0.time() }
            if let expiresAt { pending.added(expiresAt: expiresAt) }
        case .registration(let key): try database.change(RegistrationSQL.giveBack, ["key": key.sql])
        }
    }

    func close(_ gate: ExchangeGate) throws {
        switch gate {
        case .none: break
        case .login(let state): try database.change(LoginSQL.close, ["state": state.sql])
        case .registration(let key): try database.change(RegistrationSQL.close, ["key": key.sql])
        }
    }
}
