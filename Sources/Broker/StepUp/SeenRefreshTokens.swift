import Synchronization

/// The refresh tokens that a session had from the moment at which the code of its step-up was sent.
///
/// A provider that gives no other refresh token answers the code with one of these, while a refresh of the session may rotate it
/// and commit. Each of them belongs to the grant that the session has: revoking it, or storing it over a newer one, would end the
/// session.
final class SeenRefreshTokens: Sendable {
    /// A settlement that waits for its store reads the session again and again; the first is kept, and the newest.
    private static let capacity = 8

    private struct State {
        var tokens: [Secret] = []
        var question: Question?
    }

    /// A refresh that was in progress when the provider answered.
    struct Question {
        /// The token version that it replaces.
        let version: Int64
        /// The latest moment of its commit.
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

    /// Returns whether the session has had this refresh token.
    func contains(_ token: Secret?) -> Bool {
        guard let token else { return false }
        return state.withLock { $0.tokens.contains { $0.isEqual(to: token) } }
    }

    /// Notes that a refresh may store another refresh token.
    func note(_ question: Question) { state.withLock { $0.question = question } }

    /// Returns the refresh that may still store this refresh token; nil if the session has had the token, or if the refresh is over.
    func question(of token: Secret?, at moment: Duration) -> Question? {
        guard token != nil, !contains(token), let question = state.withLock({ $0.question }), moment < question.until
        else { return nil }
        return question
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
