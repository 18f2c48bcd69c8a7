/// What became of a logout token.
package enum LogoutTokenResult: Sendable, Equatable {
    /// What it names has ended; its id is remembered with the last batch.
    case ended(EndedBatch)
    /// Its id was known: nothing was done.
    case replayed
}
