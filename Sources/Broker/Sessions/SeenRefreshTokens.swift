import Synchronization

/// The refresh tokens that a session has had since the code of its step-up was sent.
///
/// Some providers answer the code of a step-up with a refresh token that the session already has. A refresh may rotate that
/// token at the same time. All these tokens belong to the session's grant. The session would end if one of them were revoked,
/// or if an older one replaced a newer one.
final class SeenRefreshTokens: Sendable {
    /// The largest number of tokens that are kept.
    ///
    /// A settlement that waits for the store reads the session repeatedly, and may see many tokens. The first token and the
    /// newest ones are kept.
    private static let capacity = 8

    private struct State {
        var tokens: [Secret] = []
        var question: Question?
    }

    /// A refresh of the session that was in progress when the provider answered.
    struct Question {
        /// The token version that the refresh replaces.
        let version: Int64
        /// The latest moment at which the refresh may still be stored.
        let until: Duration
    }

    /// Guards the tokens.
    private let state = Mutex(State())

    /// Notes a refresh token that the session has.
    func note(_ token: Secret?) {
        guard let token else { return }
        state.withLock { state in
            guard !state.tokens.contains(where: { $0.isEqual(to: token) }) else { return }
            if state.tokens.count >= Self.capacity { state.tokens.remove(at: 1) }
            state.tokens.append(token)
        }
    }

    /// Returns whether the session has had the given refresh token.
    func contains(_ token: Secret?) -> Bool {
        guard let token else { return false }
        return state.withLock { $0.tokens.contains { $0.isEqual(to: token) } }
    }

    /// Notes the refresh in progress that may store another refresh token in the session.
    func note(_ question: Question) { state.withLock { $0.question = question } }

    /// Returns the refresh in progress that may still store the given refresh token.
    ///
    /// Nil if the session has had the token, or if the refresh is over.
    func question(of token: Secret?, at moment: Duration) -> Question? {
        guard token != nil, !contains(token), let question = state.withLock({ $0.question }), moment < question.until
        else { return nil }
        return question
    }
}

extension BrokerContext {
    /// Opens the sealed parts of a session's row, and returns its tokens.
    ///
    /// Returns nil if the row has no tokens, or if a sealed part was tampered with. In the second case, the next use of the
    /// session ends the session.
    ///
    /// Throws a temporary problem if this process does not have the key yet, or if a newer version has sealed the row.
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
