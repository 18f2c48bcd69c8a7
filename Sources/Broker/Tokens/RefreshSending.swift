import Synchronization

/// The record of the last refresh request that was sent under a claim, as the provider's client reports it.
///
/// A confirming call repeats a request whose answer was lost. The record also shows whether the refresh token may be spent.
package final class RefreshSending: Sendable {
    private struct State {
        var last: (nonce: String?, idempotencyKey: String)?
        var isAnswered = false
        var mayBeSpent = false
        var isBare = false
    }

    /// Guards the whole record.
    private let state = Mutex(State())

    package init() {}

    /// The nonce and the idempotency key of the last request; nil before the first request, and after the last request was
    /// answered.
    package var last: (nonce: String?, idempotencyKey: String)? { state.withLock { $0.last } }

    /// Whether the answer to the last request has arrived.
    package var isAnswered: Bool { state.withLock { $0.isAnswered } }

    /// Whether the refresh token may be spent, because the server asked for another nonce and may have spent the token first.
    package var mayBeSpent: Bool { state.withLock { $0.mayBeSpent } }

    /// Notes a request that is about to be sent.
    package func markSending(nonce: String?, idempotencyKey: String) {
        state.withLock { state in
            state.last = (nonce, idempotencyKey)
            state.isAnswered = false
        }
    }

    /// Notes that the answer has arrived, so the request need not be repeated.
    package func markAnswered() {
        state.withLock { state in
            state.last = nil
            state.isAnswered = true
        }
    }

    /// Whether the last request was sent without a proof, because the server had refused the previous proof.
    package var isBare: Bool { state.withLock { $0.isBare } }

    /// Notes that the request is sent without a proof.
    package func markBare() { state.withLock { $0.isBare = true } }

    /// Notes that the refresh token may be spent, although the provider's answer was a refusal.
    package func markMayBeSpent() { state.withLock { $0.mayBeSpent = true } }
}
