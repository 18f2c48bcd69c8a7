/// The result of using a logout token.
package enum LogoutTokenResult: Sendable, Equatable {
    /// The sessions that the token names have ended; the token's id is stored with the last batch.
    case ended(EndedBatch)
    /// The token's id was already stored, so no session was ended.
    case replayed
}
