/// A refreshed token set to store.
package struct RefreshCommit: Sendable {
    package let tokenDigest: Digest
    package let tokenVersion: Int64
    package let tokens: Sealed
    /// The facts, sealed again because the scope shrank; nil leaves the stored facts unchanged.
    package let facts: Sealed?
    /// The stored facts that `facts` were made from.
    ///
    /// If the row has other facts by now, a step-up has written them, so the row's facts stay.
    package let formerFacts: Sealed?
    package let tokenExpiresAt: WallTime?
    package let refreshable: Bool
    /// The new end of the session, if the new refresh token's life changes it; nil leaves the stored end unchanged.
    package let expiresAt: WallTime?
    /// Whether the subject of the new id_token must be checked before any caller gets these tokens.
    package let subjectUnchecked: Bool
    /// Whether another call under this claim was sent and its answer lost.
    package let answerLost: Bool
    /// The access token for another API that the refresh brought; nil if the session's own access token was refreshed.
    package var targetToken: TargetTokenRow?
    /// The stored tokens that `tokens` were made from.
    ///
    /// If the row has other tokens of the same version by now, the commit is refused.
    ///
    /// Nil skips this check, for a refresh of the session's own access token, because the new token is newer than every
    /// stored one.
    package var formerTokens: Sealed?

    package init(
        tokenDigest: Digest, tokenVersion: Int64, tokens: Sealed, facts: Sealed?, formerFacts: Sealed? = nil,
        tokenExpiresAt: WallTime?, refreshable: Bool, expiresAt: WallTime?, subjectUnchecked: Bool = false,
        answerLost: Bool = false
    ) {
        self.answerLost = answerLost
        self.subjectUnchecked = subjectUnchecked
        self.tokenDigest = tokenDigest
        self.tokenVersion = tokenVersion
        self.tokens = tokens
        self.facts = facts
        self.formerFacts = formerFacts
        self.tokenExpiresAt = tokenExpiresAt
        self.refreshable = refreshable
        self.expiresAt = expiresAt
    }
}
