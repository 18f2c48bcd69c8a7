package import Broker

extension PostgreSQLStore {
    /// The answer to one asking for a claim.
    private struct ClaimAnswer: Sendable {
        let verdict: PostgreSQLExchangeSQL.Verdict
        let isGateOpen: Bool
        let row: ExchangeRow?
    }

    package func claimExchange(
        _ row: ExchangeRow, maximumAttempts: Int
    ) async throws(StoreFailure) -> ExchangeClaimResult {
        for _ in 0..<Self.looks {
            let answer = try await claim(row, maximumAttempts: maximumAttempts)
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
            // The gate may have been closed by whoever claimed this very exchange since the statement began.
            if answer.verdict != .missing { return .gateClosed }
            if try await exchange(row.key) == nil { return .gateClosed }
        }
        throw .unavailable("an exchange changed")
    }

    /// How often a claim looks again at what others changed meanwhile.
    private static let looks = 4

    private func claim(_ row: ExchangeRow, maximumAttempts: Int) async throws(StoreFailure) -> ClaimAnswer {
        let values: [Parameter] =
            [
                .digest(row.key), .digest(row.proof), .bytes(row.salt), .text(row.keyID), .integer(row.fence),
                .bytes(row.claim.bytes), .duration(row.claimFor), .integer(row.attempts), .time(row.createdAt),
            ] + row.gate.parameters
            + [
                .integer(maximumAttempts), .time(row.createdAt.advanced(by: RetentionPeriods.spent)), moment,
            ]
        return try await write(PostgreSQLExchangeSQL.claim, values, repeatingDuplicates: true) { rows in
            try rows.first { columns in
                guard let verdict = PostgreSQLExchangeSQL.Verdict(rawValue: try columns.small()) else {
                    throw StoreFailure.unavailable("a claim has no verdict")
                }
                let isGateOpen = try columns.truth()
                // One that would claim and found the gate closed comes without a row.
                let hasRow = !verdict.claims || (verdict == .again && isGateOpen)
                return ClaimAnswer(
                    verdict: verdict, isGateOpen: isGateOpen, row: hasRow ? try ExchangeRow(&columns) : nil)
            } ?? ClaimAnswer(verdict: .standing, isGateOpen: false, row: nil)
        }
    }

    /// A login that is taken is pending no more.
    private func gateTaken(_ gate: ExchangeGate) {
        if case .login = gate { pendingLogins.removed(expiresAt: WallTime(milliseconds: .max)) }
    }

    package func exchange(_ key: Digest) async throws(StoreFailure) -> ExchangeRow? {
        try await read(PostgreSQLExchangeSQL.byKey, [.digest(key), moment]) { rows in
            try rows.first { try ExchangeRow(&$0) }
        }
    }

    package func renewExchange(
        _ key: Digest, fence: Int64, for lifetime: Duration
    ) async throws(StoreFailure) -> Bool {
        try await write(
            PostgreSQLExchangeSQL.renew, [.digest(key), .integer(fence), .duration(lifetime), moment]
        ) { $0.count == 1 }
    }

    package func releaseExchange(
        _ key: Digest, fence: Int64, countingAttempt: Bool
    ) async throws(StoreFailure) -> Bool {
        let (isReleased, expiresAt) = try await write(
            PostgreSQLExchangeSQL.release, [.digest(key), .integer(fence), .integer(countingAttempt ? 0 : 1)]
        ) { rows -> (Bool, WallTime?) in
            try rows.first { (try $0.truth(), $0.optionalTime()) } ?? (false, nil)
        }
        if let expiresAt { pendingLogins.added(expiresAt: expiresAt) }
        return isReleased
    }

    package func settleExchange(
        _ key: Digest, fence: Int64, outcome: ExchangeRow.Outcome, outbox: [OutboxRow], registration: RegistrationRow?
    ) async throws(StoreFailure) -> Bool {
        let partial = registration?.parameters ?? Array(repeating: .null, count: 8)
        let values: [Parameter] =
            [.digest(key), .integer(fence)] + outcome.parameters
            + [.truth(outcome == .spent(.registrationRejected))] + outbox.parameters + [.truth(registration != nil)]
            + partial
        return try await write(PostgreSQLExchangeSQL.settle, values) { rows in
            try rows.first { try $0.truth() } ?? false
        }
    }

    package func completeExchange(
        _ key: Digest, fence: Int64, session: SessionRow, replacing: Digest?, sessionLimit: Int
    ) async throws(StoreFailure) -> EndedSessions? {
        let values: [Parameter] =
            [.digest(key), .integer(fence), .digest(replacing), .integer(max(sessionLimit - 1, 0))] + session.parameters
        let ended = try await write(PostgreSQLExchangeSQL.complete, values) { rows -> EndedSessions? in
            guard rows.count > 0 else { return nil }
            return try rows.map { (try $0.optionalDigest(), try $0.optionalText()) }
                .reduce(into: EndedSessions()) { ended, row in
                    guard let token = row.0 else { return }
                    if row.1 == EndReason.replaced.rawValue {
                        ended.replaced.append(token)
                    } else {
                        ended.beyondLimit.append(token)
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
    /// Whether somebody who asks again is told of something that has to last.
    fileprivate var isPromised: Bool {
        switch self {
        case .session, .registration: true
        case .calling, .released, .spent: false
        }
    }
}
