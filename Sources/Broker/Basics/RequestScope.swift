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

/// The upstream of a failed relayed call, and the API that its token was for, with their configured names.
package struct FailedCallee: Sendable, Equatable {
    package let upstream: UpstreamName
    package let target: TokenTarget?

    package init(upstream: UpstreamName, target: TokenTarget?) {
        self.upstream = upstream
        self.target = target
    }
}

/// A span: a piece of work in a trace, for example a request, or a call to a provider, an upstream or the store.
///
/// The executable makes the spans (decision 32). Names and attributes contain route templates, configured names, statuses and
/// the broker's own words. Queries, tokens, cookies and subjects are excluded.
package protocol TraceSpan: Sendable {
    /// 32 hexadecimal digits.
    var traceID: String { get }
    /// The W3C `traceparent` field for a call, so that the called service continues the trace.
    var traceparent: String { get }
    /// The `traceparent` field for a third party.
    ///
    /// If the caller chose the trace's id, this field contains an id that the broker chose.
    var ownTraceparent: String { get }
    /// Whether the caller's own context is continued, so that its `tracestate` may be passed on.
    var continuesCaller: Bool { get }

    /// Begins a span within this span; `end` ends it.
    func child(_ name: String, _ kind: TraceKind) -> any TraceSpan
    func set(_ name: StaticString, _ value: String)
    func set(_ name: StaticString, _ value: Int)
    /// Gives the span another name.
    func rename(_ name: String)
    /// Adopts the caller's decision whether to record the trace, because the caller has authenticated as a backend.
    func believeCaller()
    /// Ends the span; `fault` is a word for the fault, if there was one.
    func end(_ fault: String?)
}

/// The role of the span in a call: server or client.
package enum TraceKind: Sendable { case server, client }

/// The methods that may be in the names of spans; a client's own text must not be.
package enum TraceMethod {
    private static let known: Set<String> = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]

    /// Returns the method, or `other`.
    package static func name(_ method: String) -> String { known.contains(method) ? method : "other" }
}

/// The trace context that came with a request.
package struct TraceOrigin: Sendable {
    package let traceparent: String
    /// Whether the broker follows the context's decision to record.
    package let isTrusted: Bool

    package init(traceparent: String, isTrusted: Bool) {
        self.traceparent = traceparent
        self.isTrusted = isTrusted
    }
}

/// Begins spans that have no parent span.
package struct TraceStarter: Sendable {
    package let begin: @Sendable (_ name: String, _ kind: TraceKind, _ origin: TraceOrigin?) -> any TraceSpan

    package init(_ begin: @escaping @Sendable (String, TraceKind, TraceOrigin?) -> any TraceSpan) {
        self.begin = begin
    }
}
