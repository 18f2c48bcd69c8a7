/// A live session whose request showed the required evidence.
package struct PresentedSession: Sendable {
    package let session: LiveSession
    /// The end of the pass that the request showed; nil if it showed a proof, or if the session is unbound.
    package let passEndsAt: WallTime?
}
