/// An access token of a session for another API, as stored; it goes with the session, and with the grant that it is of.
package struct AudienceRow: Sendable, Equatable {
    /// The number of them that a session may have: beyond it the one that was longest unused goes.
    package static let perSession = 8

    /// The index digest of the session and the exact target, and what the seal is bound to.
    package let key: Digest
    /// The session's token digest.
    package let session: Digest
    /// The fence of the claim that fetched it: no two tokens of a session have the same.
    package let version: Int64
    package let storedAt: WallTime
    /// The time of its last use, to the minute.
    package var usedAt: WallTime
    /// `StoredTokens` with nothing but an access token, sealed as `.audience` for the row `key`.
    package var tokens: Sealed

    package init(
        key: Digest, session: Digest, version: Int64, storedAt: WallTime, usedAt: WallTime, tokens: Sealed
    ) {
        self.key = key
        self.session = session
        self.version = version
        self.storedAt = storedAt
        self.usedAt = usedAt
        self.tokens = tokens
    }
}

extension TokenTarget {
    /// Returns the key of a session's token for this target.
    func key(of session: Digest, _ vault: any Vault) -> Digest {
        vault.index(
            .audience,
            [Base64URL.encode(session.bytes), grant.rawValue] + parameters.flatMap { [$0.name, $0.value] })
    }
}

extension StoredTokens {
    /// Opens a stored access token for another API; nil for one that does not open, which is as one that is not there: it is
    /// fetched again.
    static func open(_ row: AudienceRow, _ context: BrokerContext) -> StoredTokens? {
        do {
            return try StoredTokens(record: try context.vault.open(row.tokens, as: .audience, row: row.key))
        } catch {
            context.events.emit(.rowDidNotOpen(kind: .audience, unknownKey: BrokerProblem(opening: error) != nil))
            return nil
        }
    }
}
