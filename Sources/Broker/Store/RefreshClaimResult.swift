/// The result of a refresh claim.
package enum RefreshClaimResult: Sendable, Equatable {
    case claimed(RefreshGrant)
    /// Another owner's claim is valid for this time.
    case busy(for: Duration)
    /// The caller must wait for this time before it calls the provider.
    case heldBack(for: Duration)
    /// The session's token version has changed, so the row must be read again.
    case moved
    /// The session is missing, has ended, or is past its lifetime.
    case gone
}
