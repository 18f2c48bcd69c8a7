/// The result of committing a step-up.
package enum StepUpCommitResult: Sendable, Equatable {
    case committed
    /// A refresh has stored newer tokens, or the session has changed, so the row must be read again.
    case moved
    /// The session is missing or has ended; the exchange is unchanged.
    ///
    /// The store accepts a lapsed session, because the wall clock may be wrong.
    case ended
    /// Another owner has claimed the exchange, or the exchange is settled.
    case takenAway
}
