import Synchronization

/// The last sending of a claim's refresh call, told by who sends it: a confirming call repeats one whose answer was lost, and
/// what it may have used up is remembered.
package final class RefreshSending: Sendable {
    private struct State {
        var last: (nonce: String?, idempotencyKey: String)?
        var isAnswered = false
        var mayBeSpent = false
        var isBare = false
    }

    /// Guards all of it.
    private let state = Mutex(State())

    package init() {}

    /// The nonce and the idempotency key of the last sending; nil where there was none, or its answer was heard.
    package var last: (nonce: String?, idempotencyKey: String)? { state.withLock { $0.last } }

    /// Whether the answer to the last sending was heard.
    package var isAnswered: Bool { state.withLock { $0.isAnswered } }

    /// Whether the server asked for another nonce, and is not known to look at proofs before it spends a refresh token.
    package var mayBeSpent: Bool { state.withLock { $0.mayBeSpent } }

    /// Notes what is about to be sent.
    package func begins(nonce: String?, idempotencyKey: String) {
        state.withLock { state in
            state.last = (nonce, idempotencyKey)
            state.isAnswered = false
        }
    }

    /// Notes that the answer to it has come: there is nothing of it to repeat.
    package func isHeard() {
        state.withLock { state in
            state.last = nil
            state.isAnswered = true
        }
    }

    /// Whether it was sent without a proof at last, because the server had refused the one before.
    package var isBare: Bool { state.withLock { $0.isBare } }

    /// Notes that it is sent without a proof.
    package func goesBare() { state.withLock { $0.isBare = true } }

    /// Notes that the refresh token may be spent although its answer refused it.
    package func spendsPerhaps() { state.withLock { $0.mayBeSpent = true } }
}
