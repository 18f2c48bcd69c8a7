package import Broker

extension PostgreSQLStore {
    /// The result of a claim statement.
    private struct ClaimAnswer: Sendable {
        let verdict: PostgreSQLExchangeSQL.Verdict
        let isGateOpen: Bool
        let row: ExchangeRow?
    }

    package func claimExchange(
        _ row: ExchangeRow, maximumAttempts: Int, sparing spared: SparedClaims
    ) async throws(StoreFailure) -> ExchangeClaimResult {
        for _ in 0..<Self.looks {
            let answer = try await claim(row, maximumAttempts: maximumAttempts, spared)
            if let standing = answer.row {
                let isMine = answer.verdict == .own || answer.verdict == .again
                if answer.verdict == .again { gateTaken(row.gate) }
                if standing.outcome.isPromised { try await confirm() }
                return isMine ? .claimed(standing) : .existing(standing)
            }
            if answer.verdict == .missing, answer.isGateOpen {
                gateTaken(row.gate)
                return .claimed(row)
            }
            // The gate may be closed because another request claimed this same exchange after the statement began. So look
            // for the exchange's row, and claim again if the row exists.
            if answer.verdict != .missing { return .gateClosed }
            if try await exchange(row.key) == nil { return .gateClosed }
        }
        throw .unavailable("an exchange changed")
    }

    /// The largest number of attempts of a claim while other transactions keep changing its rows.
    private static let looks = 4

    private func claim(
        _ row: ExchangeRow, maximumAttempts: Int, _ spared: SparedClaims
    ) async throws(StoreFailure) -> ClaimAnswer {
        let values: Named<Parameter> =
            row.claimParameters + row.gate.parameters
            + [
                "most_attempts": .integer(maximumAttempts),
                "kept_until": .time(row.createdAt.advanced(by: RetentionPeriods.spent)), "moment": moment,
                "spared_from": .duration(spared.lapsedFor?.lowerBound),
                "spared_to": .duration(spared.lapsedFor?.upperBound),
            ]
        return try await write(PostgreSQLExchangeSQL.claim, values, repeatingDuplicates: true) { rows in
            try rows.first { columns in
                guard let verdict = PostgreSQLExchangeSQL.Verdict(rawValue: try columns.small()) else {
                    throw StoreFailure.unavailable("a claim has no verdict")
                }
                let isGateOpen = try columns.truth()
                // The statement returns the existing row if it made no claim. If it claimed a released exchange again, it
                // returns the row only if the gate was open.
                let hasRow = !verdict.claims || (verdict == .again && isGateOpen)
                return ClaimAnswer(
                    verdict: verdict, isGateOpen: isGateOpen, row: hasRow ? try ExchangeRow(&columns) : nil)
            } ?? ClaimAnswer(verdict: .standing, isGateOpen: false, row: nil)
        }
    }

    /// Subtracts a login that an exchange has claimed from the count of pending logins.
    private func gateTaken(_ gate: ExchangeGate) {
        if case .login = gate { pendingLogins.removed(expiresAt: WallTime(milliseconds: .max)) }
    }

    package func exchange(_ key: Digest) async throws(StoreFailure) -> ExchangeRow? {
        try await read(PostgreSQLExchangeSQL.byKey, ["key": .digest(key), "moment": moment]) { rows in
            try rows.first { try ExchangeRow(&$0) }
        }
    }

    package func renewExchange(
        _ key: Digest, fence: Int64, for lifetime: Duration
    ) async throws(StoreFailure) -> Bool {
        try await write(
            PostgreSQLExchangeSQL.renew,
            ["key": .digest(key), "fence": .integer(fence), "lifetime": .duration(lifetime), "moment": moment]
        ) { $0.count == 1 }
    }

    package func releaseExchange(
        _ key: Digest, fence: Int64, countingAttempt: Bool
    ) async throws(StoreFailure) -> Bool {
        let (isReleased, expiresAt) = try await write(
            PostgreSQLExchangeSQL.release,
            ["key": .digest(key), "fence": .integer(fence), "uncounted": .integer(countingAttempt ? 0 : 1)]
        ) { rows -> (Bool, WallTime?) in
            try rows.first { (try $0.truth(), $0.optionalTime()) } ?? (false, nil)
        }
        if let expiresAt { pendingLogins.added(expiresAt: expiresAt) }
        return isReleased
    }

    package func settleExchange(
        _ key: Digest, fence: Int64, outcome: ExchangeRow.Outcome, outbox: [OutboxRow], registration: RegistrationRow?
    ) async throws(StoreFailure) -> Bool {
        let values: Named<Parameter> =
            ["exchange": .digest(key), "exchange_fence": .integer(fence)] + outcome.parameters
            + ["may_resubmit": .truth(outcome == .spent(.registrationRejected))] + outbox.parameters
            + ["has_registration": .truth(registration != nil)] + RegistrationRow.parameters(registration)
        return try await write(PostgreSQLExchangeSQL.settle, values) { rows in
            try rows.first { try $0.truth() } ?? false
        }
    }

    package func completeExchange(
        _ key: Digest, fence: Int64, session: SessionRow, replacing: Digest?, sessionLimit: Int
    ) async throws(StoreFailure) -> EndedSessions? {
        let values: Named<Parameter> =
            [
                "exchange": .digest(key), "exchange_fence": .integer(fence), "replaced": .digest(replacing),
                "others": .integer(max(sessionLimit - 1, 0)),
            ] + session.parameters
        let ended = try await write(PostgreSQLExchangeSQL.complete, values) { rows -> EndedSessions? in
            guard rows.count > 0 else { return nil }
            return try rows.map { (try $0.optionalDigest(), try $0.optionalText()) }
                .reduce(into: EndedSessions()) { ended, row in
                    guard let tokenDigest = row.0 else { return }
                    if row.1 == EndReason.replaced.rawValue {
                        ended.replaced.append(tokenDigest)
                    } else {
                        ended.beyondLimit.append(tokenDigest)
                    }
                }
        }
        if let ended {
            endings?.tell(ended.replaced, .replaced)
            endings?.tell(ended.beyondLimit, .sessionLimit)
        } else {
            try await confirm()
        }
        return ended
    }
}

extension ExchangeRow.Outcome {
    /// Whether the outcome is a result that a retry must receive only after it is durable.
    fileprivate var isPromised: Bool {
        switch self {
        case .session, .registration, .continued: true
        case .calling, .released, .spent: false
        }
    }
}
