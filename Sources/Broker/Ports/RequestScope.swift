import Synchronization

/// A task's request as the log and the traces know it: its id, its span, and which session it concerns.
///
/// Work that outlives its request takes the scope along.
package final class RequestScope: Sendable {
    /// The scope of the request at hand; nil for work that no request wanted.
    @TaskLocal package static var current: RequestScope?

    package let requestID: String
    /// Nil where nothing is traced.
    package let span: (any TraceSpan)?
    /// Guards which session it is, and which upstream's call has failed.
    private let noted = Mutex<(session: SessionHandle?, callee: FailedCallee?)>((nil, nil))
    /// Guards whether the answer brings a nonce for the next proof.
    private let nonce = Mutex(false)

    package init(requestID: String, span: (any TraceSpan)? = nil) {
        self.requestID = requestID
        self.span = span
    }

    /// The session that the request presented, or made.
    package var session: SessionHandle? { noted.withLock { $0.session } }

    /// The upstream whose call has failed, for the log.
    package var failedCallee: FailedCallee? { noted.withLock { $0.callee } }

    /// Whether the answer brings a nonce for the next proof.
    package var wantsNonce: Bool { nonce.withLock { $0 } }

    /// Notes that the answer brings a nonce for the next proof.
    func givesNonce() { nonce.withLock { $0 = true } }

    /// Notes which session the request at hand concerns; the last one stays.
    package static func concerns(_ session: SessionHandle) { current?.noted.withLock { $0.session = session } }

    /// Notes the upstream whose call has failed in the request at hand.
    package static func failed(_ callee: FailedCallee) { current?.noted.withLock { $0.callee = callee } }
}

/// The upstream of a relayed call that has failed, and the API that its token was for, in the configuration's words.
package struct FailedCallee: Sendable, Equatable {
    package let upstream: UpstreamName
    package let target: TokenTarget?

    package init(upstream: UpstreamName, target: TokenTarget?) {
        self.upstream = upstream
        self.target = target
    }
}

/// A piece of work in a trace: a request, a provider's or an upstream's call, a store's.
///
/// The executable makes them (decision 32). Names and attributes hold route templates, configured names, statuses and our
/// own words: no query, token, cookie or subject.
package protocol TraceSpan: Sendable {
    /// 32 hexadecimal digits.
    var traceID: String { get }
    /// The W3C field for who is called: it continues the trace.
    var traceparent: String { get }
    /// The same for a third party: where the caller has chosen the trace's id, it has one of our own.
    var ownTraceparent: String { get }
    /// Whether the caller's own context is continued, so that its `tracestate` may go along.
    var continuesCaller: Bool { get }

    /// Begins a span within this one; it ends by `end`.
    func child(_ name: String, _ kind: TraceKind) -> any TraceSpan
    func set(_ name: StaticString, _ value: String)
    func set(_ name: StaticString, _ value: Int)
    /// Gives the span another name.
    func rename(_ name: String)
    /// Believes the caller's decision whether the trace is recorded: the caller has proved to be one of us.
    func believeCaller()
    /// Ends it; with a word for what went wrong, where something did.
    func end(_ fault: String?)
}

/// The side of a call on which a span stands.
package enum TraceKind: Sendable { case server, client }

/// The methods that spans are named by: a stranger's words are no names.
package enum TraceMethod {
    private static let known: Set<String> = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]

    /// Returns the method, or `other`.
    package static func name(_ method: String) -> String { known.contains(method) ? method : "other" }
}

/// The context that came with a request.
package struct TraceOrigin: Sendable {
    package let traceparent: String
    /// Whether its decision what is recorded is believed.
    package let isTrusted: Bool

    package init(traceparent: String, isTrusted: Bool) {
        self.traceparent = traceparent
        self.isTrusted = isTrusted
    }
}

/// Begins spans that are within no other.
package struct TraceStarter: Sendable {
    package let begin: @Sendable (_ name: String, _ kind: TraceKind, _ origin: TraceOrigin?) -> any TraceSpan

    package init(_ begin: @escaping @Sendable (String, TraceKind, TraceOrigin?) -> any TraceSpan) {
        self.begin = begin
    }
}
