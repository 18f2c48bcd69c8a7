import Synchronization

/// The refresh tokens that a session had from the moment at which the code of its step-up was sent.
///
/// A provider that gives no other refresh token answers the code with one of these, while a refresh of the session may rotate it
/// and commit. Each of them belongs to the grant that the session has: revoking it, or storing it over a newer one, would end the
/// session.
final class SeenRefreshTokens: Sendable {
    /// A settlement that waits for its store reads the session again and again; the first is kept, and the newest.
    private static let capacity = 8

    /// Guards the tokens.
    private let tokens = Mutex<[Secret]>([])

    /// Notes a refresh token that the session has.
    func note(_ token: Secret?) {
        guard let token else { return }
        tokens.withLock { tokens in
            guard !tokens.contains(where: { $0.isEqual(to: token) }) else { return }
            if tokens.count >= Self.capacity { tokens.remove(at: 1) }
            tokens.append(token)
        }
    }

    /// Returns whether the session has had this refresh token.
    func contains(_ token: Secret?) -> Bool {
        guard let token else { return false }
        return tokens.withLock { $0.contains { $0.isEqual(to: token) } }
    }
}

extension BrokerContext {
    /// Opens what a session's row seals, and returns its tokens; nil where it has none, or where they were changed, which whoever
    /// uses the session next finds out.
    ///
    /// Throws the passing problem of a value that this process has no key for yet, or that a newer version has sealed.
    func openSealed(_ row: SessionRow) throws(BrokerProblem) -> StoredTokens? {
        do {
            _ = try SessionFacts.open(row, vault)
            return try row.tokens.map {
                try StoredTokens(record: try vault.open($0, as: .tokens, row: row.tokenDigest))
            }
        } catch {
            guard let passing = BrokerProblem(opening: error) else { return nil }
            events.emit(.rowDidNotOpen(kind: .tokens, unknownKey: true))
            throw passing
        }
    }
}
