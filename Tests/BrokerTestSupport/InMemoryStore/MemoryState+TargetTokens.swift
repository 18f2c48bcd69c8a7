import Broker

extension MemoryState {
    mutating func store(_ row: TargetTokenRow) {
        guard targetTokens[row.key].map({ $0.version < row.version }) ?? true else { return }
        targetTokens[row.key] = row
        let others = targetTokens.values.filter { $0.session == row.session && $0.key != row.key }
        for one in others.sorted(by: { $0.usedAt > $1.usedAt }).dropFirst(TargetTokenRow.perSession - 1) {
            targetTokens[one.key] = nil
        }
    }

    mutating func keepTargetToken(_ row: TargetTokenRow, tokenVersion: Int64, of tokens: Sealed?) -> Bool {
        guard let session = sessions[row.session], session.endedAt == nil, session.tokenVersion == tokenVersion,
            session.fence == row.version, var marks = marks[row.session], marks.claimUntil != nil,
            tokens == nil || tokens == session.tokens
        else { return false }
        marks.claim = nil
        marks.claimUntil = nil
        marks.holdUntil = nil
        self.marks[row.session] = marks
        store(row)
        return true
    }

    mutating func useTargetToken(_ key: Digest, at now: WallTime) {
        guard let row = targetTokens[key], row.usedAt < now else { return }
        targetTokens[key]?.usedAt = now
    }

    mutating func dropTargetTokens(of session: Digest) {
        for row in targetTokens.values where row.session == session { targetTokens[row.key] = nil }
    }
}
