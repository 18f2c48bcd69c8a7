import Synchronization

/// The last sending of a claim's refresh call, told by who sends it: a confirming call repeats it, and what it may have used
/// up is remembered.
package final class RefreshSending: Sendable {
    private struct State {
        var last: (nonce: String?, idempotencyKey: String)?
        var mayBeSpent = false
    }

    /// Guards both.
    private let state = Mutex(State())

    package init() {}

    /// The nonce and the idempotency key of the last sending; nil where there was none.
    package var last: (nonce: String?, idempotencyKey: String)? { state.withLock { $0.last } }

    /// Whether the server asked for another nonce, and is not known to look at proofs before it spends a refresh token.
    package var mayBeSpent: Bool { state.withLock { $0.mayBeSpent } }

    /// Notes what is about to be sent.
    package func begins(nonce: String?, idempotencyKey: String) {
        state.withLock { $0.last = (nonce, idempotencyKey) }
    }

    /// Notes that the refresh token may be spent although its answer refused it.
    package func spendsPerhaps() { state.withLock { $0.mayBeSpent = true } }
}
