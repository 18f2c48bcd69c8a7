import Synchronization

/// The log and trace data of a task's request: its id, its span, and the session that it concerns.
///
/// Work that outlives its request keeps this data.
package final class RequestScope: Sendable {
    /// The data of the current request; nil for work that no request started.
    @TaskLocal package static var current: RequestScope?

    package let requestID: String
    /// The span of the request; nil if tracing is off.
    package let span: (any TraceSpan)?
    /// Guards the session, and the upstream whose call has failed.
    private let noted = Mutex<(session: SessionHandle?, callee: FailedCallee?)>((nil, nil))
    /// Guards whether the answer has a nonce for the next proof.
    private let nonce = Mutex(false)

    package init(requestID: String, span: (any TraceSpan)? = nil) {
        self.requestID = requestID
        self.span = span
    }

    /// The session that the request presented, or made.
    package var session: SessionHandle? { noted.withLock { $0.session } }

    /// The upstream whose call has failed, for the log.
    package var failedCallee: FailedCallee? { noted.withLock { $0.callee } }

    /// Whether the answer has a nonce for the next proof.
    package var wantsNonce: Bool { nonce.withLock { $0 } }

    /// Notes that the answer has a nonce for the next proof.
    func givesNonce() { nonce.withLock { $0 = true } }

    /// Notes the session that the present request concerns; a later call replaces it.
    package static func concerns(_ session: SessionHandle) { current?.noted.withLock { $0.session = session } }

    /// Notes the upstream whose call has failed in the present request.
    package static func failed(_ callee: FailedCallee) { current?.noted.withLock { $0.callee = callee } }
}
