import Broker

extension MemoryState {
    mutating func store(_ row: AudienceRow) {
        guard audiences[row.key].map({ $0.version < row.version }) ?? true else { return }
        audiences[row.key] = row
        let others = audiences.values.filter { $0.session == row.session && $0.key != row.key }
        for one in others.sorted(by: { $0.usedAt > $1.usedAt }).dropFirst(AudienceRow.perSession - 1) {
            audiences[one.key] = nil
        }
    }

    mutating func keepAudience(_ row: AudienceRow, tokenVersion: Int64, of tokens: Sealed?) -> Bool {
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

    mutating func useAudience(_ key: Digest, at now: WallTime) {
        guard let row = audiences[key], row.usedAt < now else { return }
        audiences[key]?.usedAt = now
    }

    mutating func dropAudiences(of session: Digest) {
        for row in audiences.values where row.session == session { audiences[row.key] = nil }
    }
}
