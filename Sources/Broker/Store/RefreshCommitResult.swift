/// The result of committing a refresh.
package enum RefreshCommitResult: Sendable, Equatable {
    case committed
    /// A newer version of the same grant is stored, so the new token pair is dropped without a revocation.
    case superseded
    /// A step-up has begun another grant since the claim. The new token pair belongs to the old grant, so it is revoked if
    /// the revocation spares the session's new tokens.
    case outgrown
    /// The row has the same version, but other tokens than the commit was made from. So the commit must be made again.
    case changed
    /// The session has ended meanwhile, so the new token pair must be revoked.
    case ended
}
