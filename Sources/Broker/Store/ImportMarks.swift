/// The members that only an import's row has.
///
/// The import is the exchange of tokens that an app already holds.
package struct ImportMarks: Sendable, Equatable {
    /// The time until which the row is kept, and its token is kept from the provider.
    package var keptUntil: WallTime
    /// The time when the provider's answer was sealed for the row (`ImportPair`); nil before.
    package var pairKeptAt: WallTime?
    /// The number of refusals that may mean a dead grant (decision 50).
    package var refusals: Int
    /// The time of the first of these refusals.
    package var firstRefusedAt: WallTime?
    /// The largest number of calls that a claim of the row allows; only the claim has it.
    package var mostCalls: Int

    package init(
        keptUntil: WallTime, pairKeptAt: WallTime? = nil, refusals: Int = 0, firstRefusedAt: WallTime? = nil,
        mostCalls: Int = maximumCalls
    ) {
        self.keptUntil = keptUntil
        self.mostCalls = mostCalls
        self.pairKeptAt = pairKeptAt
        self.refusals = refusals
        self.firstRefusedAt = firstRefusedAt
    }

    /// The least lifetime of an import's row, counted from its last claim.
    package static let period = Duration.seconds(30 * 86_400)
    /// The longest lifetime of an import's row: a year, with room for a leap day and the last day.
    ///
    /// `check` refuses an end of imports that is further away. A running broker accepts it, because its clock may be wrong.
    package static let longestPeriod = Duration.seconds(367 * 86_400)
    /// The period for a token that the provider has refused or has yet to receive.
    package static let shortPeriod = Duration.seconds(86_400)
    /// The period for which the refusal of a legacy token is repeated from its row.
    package static let refusedPeriod = Duration.seconds(600)
    /// The longest lifetime of a kept pair; then it is revoked.
    package static let pairPeriod = Duration.seconds(3600)
    /// The largest number of calls with one token that may have reached the provider: the first call and the confirming call.
    package static let maximumCalls = 2
    /// The `mostCalls` of a legacy token, because a question to the old system may be repeated as often as needed.
    package static let anyNumber = Int(Int32.max)
    /// The least `attempts` of a row with a kept pair, which are then the number of the pair.
    ///
    /// Release 0.1.0 leaves a released row with so many attempts alone.
    package static let attemptsWithPair = 3
}

extension ImportMarks {
    /// Returns the end of an import's row: 30 days after its claim, or the end of the client's time for imports if that is later.
    ///
    /// A phone that is restored from a backup has its old token again. As long as the phone may post it, the row keeps the token
    /// from the provider, which would end the living session.
    static func end(of client: ClientProfile, claimedAt now: WallTime) -> WallTime {
        let least = now.advanced(by: period)
        let ends = [client.importsUntil, client.moveIn?.until].compactMap { $0 }
        return min(ends.reduce(least, max), now.advanced(by: longestPeriod))
    }
}

/// The verdict on a claim of an import whose row exists.
package enum ImportVerdict: Sendable, Equatable {
    /// Another owner has the claim, or the row is settled, or another starter's pair is kept.
    case standing
    /// The claim is the caller's own, and the response to it was lost.
    case own
    /// The caller gets the claim.
    case again
    /// The last answer that could have come was lost, so the import is spent as `.refreshLost`.
    case lost
}

/// The rules for the claims of an import.
///
/// SQLite and the test store run this code inside their transactions. PostgreSQL has the same rules in SQL
/// (`PostgreSQLImportSQL.claim`), and `ImportContract` tests all engines alike.
extension ExchangeRow {
    /// The number of calls that may have reached the provider.
    ///
    /// An older release also counted calls that the provider had answered with 429 or 5xx. Such a count of a released row is
    /// left out.
    private var calls: Int { imported == nil && outcome == .released ? 0 : attempts }

    /// Returns the verdict on a claim of this row.
    package func verdict(on claim: ExchangeRow, sparing spared: SparedClaims) -> ImportVerdict {
        switch outcome {
        case .session, .registration, .continued, .spent: return .standing
        case .calling where self.claim == claim.claim: return .own
        case .calling where isOwned(spared): return .standing
        case .calling, .released:
            // A pair belongs to the starter of the call. Before that, the token alone gives the right to the next call.
            if imported?.pairKeptAt != nil { return hasProof(of: claim) ? .again : .standing }
            return calls < claim.imported?.mostCalls ?? ImportMarks.maximumCalls ? .again : .lost
        }
    }

    /// Returns this row after the claim was granted; only a row that lacks a pair counts a further call.
    package func claimedAgain(by claim: ExchangeRow) -> ExchangeRow {
        var row = claim
        row.fence = fence + 1
        row.attempts = imported?.pairKeptAt == nil ? calls + 1 : attempts
        row.imported = claim.imported.map { marks in
            ImportMarks(
                keptUntil: marks.keptUntil, pairKeptAt: imported?.pairKeptAt, refusals: imported?.refusals ?? 0,
                firstRefusedAt: imported?.firstRefusedAt)
        }
        return row
    }
}
