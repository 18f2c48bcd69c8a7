/// Work at a provider that outlives the request and the process, for example revoking tokens.
package struct OutboxRow: Sendable, Equatable {
    /// The row's key, from at least 16 random bytes.
    package var id: Digest
    /// The row that the sealed tokens are bound to (a session's token digest, or an exchange's key).
    package var boundTo: Digest
    /// `StoredTokens`, sealed as `.tokens` for `boundTo`.
    package var tokens: Sealed
    package var createdAt: WallTime
    package var nextAttemptAt: WallTime
    package var attempts: Int

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
