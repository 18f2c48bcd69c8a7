/// A session's access token for another API, as stored.
///
/// The row is deleted together with the session, or with the token's grant.
package struct TargetTokenRow: Sendable, Equatable {
    /// The largest number of rows that a session may have.
    ///
    /// If one more is stored, the row unused for longest is deleted.
    package static let perSession = 8

    /// The index digest of the session and the exact target.
    ///
    /// The seal is bound to this digest.
    package let key: Digest
    /// The digest of the session's token.
    package let session: Digest
    /// The fence of the claim that fetched the token; each token of a session has another fence.
    package let version: Int64
    package let storedAt: WallTime
    /// The time of the last noted use.
    ///
    /// Uses less than a minute later are left out.
    package var usedAt: WallTime
    /// `StoredTokens` with only an access token, sealed as `.targetToken` for the row `key`.
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
            .targetToken,
            [Base64URL.encode(session.bytes), grant.rawValue] + parameters.flatMap { [$0.name, $0.value] })
    }
}

extension StoredTokens {
    /// Opens a stored access token for another API.
    ///
    /// Returns nil if the row does not open; the token is then fetched again.
    static func open(_ row: TargetTokenRow, _ context: BrokerContext) -> StoredTokens? {
        do {
            return try StoredTokens(record: try context.vault.open(row.tokens, as: .targetToken, row: row.key))
        } catch {
            context.events.emit(.rowDidNotOpen(kind: .targetToken, unknownKey: BrokerProblem(opening: error) != nil))
            return nil
        }
    }
}
