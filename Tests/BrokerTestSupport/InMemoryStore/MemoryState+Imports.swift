import Broker

extension MemoryState {
    mutating func claimImport(
        _ row: ExchangeRow, sparing: SparedClaims, at moment: Duration
    ) -> ExchangeClaimResult {
        guard var standing = exchange(row.key, at: moment) else {
            exchanges[row.key] = row
            exchangeClaims[row.key] = moment + row.claimFor
            return .claimed(row)
        }
        switch standing.verdict(on: row, sparing: sparing) {
        case .standing: return .existing(standing)
        case .own: return .claimed(standing)
        case .again:
            let claimed = standing.claimedAgain(by: row)
            exchanges[row.key] = claimed
            exchangeClaims[row.key] = moment + row.claimFor
            return .claimed(claimed)
        case .lost:
            standing.outcome = .spent(.refreshLost)
            standing.imported = standing.imported ?? row.imported
            exchanges[row.key] = standing
            return .existing(standing)
        }
    }

    mutating func releaseImport(_ key: Digest, fence: Int64, _ release: ImportRelease) -> Bool {
        guard var row = owned(key, fence), var marks = row.imported else { return false }
        row.outcome = .released
        if marks.pairKeptAt == nil {
            row.attempts = release.calls
            if release.calls == 0 { marks.keptUntil = row.createdAt.advanced(by: ImportMarks.shortPeriod) }
        }
        if let refusedAt = release.refusedAt {
            marks.refusals += 1
            marks.firstRefusedAt = marks.firstRefusedAt ?? refusedAt
        }
        row.imported = marks
        exchanges[key] = row
        return true
    }

    mutating func countImportCall(_ key: Digest, fence: Int64, calls: Int) -> Bool {
        guard var row = owned(key, fence), row.imported != nil else { return false }
        row.attempts = calls
        exchanges[key] = row
        return true
    }

    mutating func keepPair(_ pair: ImportPair, as number: Int, fence: Int64, at now: WallTime) -> Bool {
        guard var row = owned(pair.key, fence), row.imported != nil, row.attempts <= number else { return false }
        if row.imported?.pairKeptAt == nil { row.imported?.pairKeptAt = now }
        row.attempts = number
        exchanges[pair.key] = row
        importPairs[pair.key] = pair
        return true
    }

    /// Changes an import's marks for a settled row, and deletes its pair.
    mutating func endImport(_ key: Digest) {
        guard let row = exchanges[key], row.imported != nil else { return }
        exchanges[key]?.imported?.pairKeptAt = nil
        importPairs[key] = nil
        let period: Duration
        switch row.outcome {
        case .spent(.grantRevoked): period = ImportMarks.shortPeriod
        case .spent(.unknownSession): period = ImportMarks.refusedPeriod
        default: return
        }
        exchanges[key]?.imported?.keptUntil = row.createdAt.advanced(by: period)
    }

    /// Moves the pairs that were kept for too long to the outbox, and removes the imports whose time is over.
    mutating func sweepImports(now: WallTime, limit: Int, at moment: Duration) -> Int {
        let before = now.advanced(by: .zero - ImportMarks.pairPeriod)
        let due = exchanges.values.filter { row in
            guard let keptAt = row.imported?.pairKeptAt, keptAt <= before else { return false }
            if case .spent = row.outcome { return true }
            return row.outcome == .released
                || row.outcome == .calling && (exchangeClaims[row.key] ?? moment) <= moment
        }.prefix(limit)
        for row in due {
            if let pair = importPairs[row.key] {
                addOutbox([
                    OutboxRow(
                        id: pair.key, boundTo: pair.key, tokens: pair.tokens, createdAt: now, nextAttemptAt: now)
                ])
            }
            exchanges[row.key]?.outcome = .spent(.expired)
            endImport(row.key)
        }
        let over = exchanges.values.filter { row in
            row.imported.map { $0.keptUntil <= now && $0.pairKeptAt == nil } ?? false
        }.prefix(limit)
        for row in over {
            exchanges[row.key] = nil
            exchangeClaims[row.key] = nil
        }
        return due.count + over.count
    }
}
