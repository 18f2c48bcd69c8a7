// A provider may answer a step-up with the refresh token of a refresh in progress, before the broker has stored that token.
// Such a token looks like the token of another grant. Only the owner of the refresh can show that it belongs to the session's
// grant.
//
// So the revocation of the session's grant waits for the end of the refresh. The step-up itself is stored at once.

extension RefreshState {
    /// The time after the end of a claim in which its owner may still write.
    private static let slack = Duration.seconds(5)

    /// The time for which a refresh may still bring a new refresh token; nil if no refresh is in progress.
    var mayBringFor: Duration? {
        guard !isEnded, let rest = claimRest, rest > .zero - RefreshMarks.grace else { return nil }
        return max(rest, .zero) + Self.slack
    }
}

extension ExchangeSettlement {
    /// Notes whether a refresh of the session in progress may bring the refresh token of the step-up's answer.
    ///
    /// A refresh that is claimed after this check gets its refresh token after the answer, so it needs no attention.
    func noteRefresh(of session: Digest, _ answer: TokenSet) async {
        guard answer.refreshToken != nil, !exchange.seen.contains(answer.refreshToken) else { return }
        let state: RefreshState?? = await insisting("refreshState") { () async throws(StoreFailure) in
            try await context.store.refreshState(session)
        }
        guard let state = state ?? nil, let rest = state.mayBringFor else { return }
        exchange.seen.note(
            SeenRefreshTokens.Question(version: state.tokenVersion, until: context.clock.monotonic() + rest))
    }

    /// Returns the pause before a revocation, as long as it is unknown which grant a refresh token belongs to; nil if the
    /// grant is known.
    func questionFor(_ token: Secret?) -> Duration? {
        let moment = context.clock.monotonic()
        return exchange.seen.question(of: token, at: moment).map { $0.until - moment }
    }

    /// Watches outbox rows while it is unknown which grant their refresh token belongs to.
    ///
    /// If the refresh in progress stores that refresh token, the rows are removed.
    ///
    /// If the process dies meanwhile, `Revocations` works on the rows, and spares the refresh token that the session has then.
    func watch(_ work: [OutboxRow], _ answer: TokenSet?) {
        guard let session = plan.stepUp?.session, let token = answer?.refreshToken,
            let question = exchange.seen.question(of: token, at: context.clock.monotonic())
        else { return }
        let (context, seen, ids) = (context, exchange.seen, work.map(\.id))
        context.spawner.spawn("tokensInQuestion") {
            var pause = DoublingPause(from: .milliseconds(20), to: .milliseconds(250))
            while context.clock.monotonic() < question.until {
                do {
                    try await pause.take(context.clock)
                    guard let row = try await context.store.session(tokenDigest: session), row.endedAt == nil else {
                        return
                    }
                    seen.note(try context.openSealed(row)?.tokens.refreshToken)
                    // If two refreshes were stored since the last round of this loop, the session may have had the token
                    // meanwhile. So the token is left unrevoked.
                    let isSkipped = row.tokenVersion > question.version + 1
                    if seen.contains(token) || isSkipped { return try await context.store.removeOutbox(ids) }
                    guard row.tokenVersion == question.version,
                        let state = try await context.store.refreshState(session), state.mayBringFor != nil
                    else { return }
                } catch is CancellationError { return } catch {}
            }
        }
    }
}
