/// Work to do at a provider that outlives the request and the process: revoking tokens.
package struct OutboxRow: Sendable, Equatable {
    /// 16 random bytes and up: the key.
    package var id: Digest
    /// The row the sealed tokens are bound to (a session's token digest, or an exchange's key).
    package var boundTo: Digest
    /// `StoredTokens`, sealed as `.tokens` for `boundTo`.
    package var tokens: Sealed
    package var createdAt: WallTime
    package var nextAttemptAt: WallTime
    package var attempts: Int
    /// Whether a live session had the `sid` of the session it is bound to when it was taken; never stored.
    package var isShared = false

    package init(
        id: Digest, boundTo: Digest, tokens: Sealed, createdAt: WallTime, nextAttemptAt: WallTime, attempts: Int = 0
    ) {
        self.id = id
        self.boundTo = boundTo
        self.tokens = tokens
        self.createdAt = createdAt
        self.nextAttemptAt = nextAttemptAt
        self.attempts = attempts
    }
}
