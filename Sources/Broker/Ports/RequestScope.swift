import Synchronization

/// What the log and the traces know of the request that a task works for: its id, its span, and which session it
/// concerns.
///
/// Work that outlives its request takes the scope along.
package final class RequestScope: Sendable {
    /// The scope of the request at hand; nil for work that no request wanted.
    @TaskLocal package static var current: RequestScope?

    package let requestID: String
    /// Nil where nothing is traced.
    package let span: (any TraceSpan)?
    /// Guards which session it is.
    private let noted = Mutex<SessionHandle?>(nil)
    /// Guards whether the answer brings a nonce for the next proof.
    private let nonce = Mutex(false)

    package init(requestID: String, span: (any TraceSpan)? = nil) {
        self.requestID = requestID
        self.span = span
    }

    /// The session that the request presented, or made.
    package var session: SessionHandle? { noted.withLock { $0 } }

    /// Whether the answer brings a nonce for the next proof.
    package var wantsNonce: Bool { nonce.withLock { $0 } }

    /// Notes that the answer brings a nonce for the next proof.
    func givesNonce() { nonce.withLock { $0 = true } }

    /// Notes which session the request at hand concerns; the last one stays.
    package static func concerns(_ session: SessionHandle) { current?.noted.withLock { $0 = session } }
}
