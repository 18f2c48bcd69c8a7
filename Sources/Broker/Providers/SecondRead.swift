import Synchronization

/// The permission for one further identity call in a sign-in.
///
/// Some providers recognise a token only a moment after they issued it (decision 80). All reads of one sign-in share the
/// permission, so at most one of them is repeated for this reason.
package final class SecondRead: Sendable {
    private let isLeft = Atomic(true)

    package init() {}

    /// Uses the permission; returns false if it was already used.
    package func take() -> Bool { isLeft.exchange(false, ordering: .relaxed) }
}
