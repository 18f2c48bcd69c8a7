package import Broker
import HTTPTypes
import Synchronization

/// The facts of one request that the log may know: never the raw path, the query, a cookie or a body (SEC-114, SEC-118).
package struct RequestRecord: Sendable {
    /// The method, `-` when the request could not be read.
    package let method: String
    /// The route's template (`/v1/sessions/{handle}`), `-` when no route was found.
    package let route: String
    package let status: Int
    /// From the request's head to its answer's head; a stream's body goes on after.
    package let duration: Duration
    package let requestID: String
    /// The client's address, worked out behind trusted proxies.
    package let client: String
    /// The session that it presented or made; nil where there is none, or none was looked for.
    package let session: SessionHandle?
    /// The upstream whose call has failed, with the API that its token was for; nil for all else.
    package let failed: FailedCallee?
    /// The trace that it is part of; nil where nothing is traced.
    package let traceID: String?
    /// The TCP peer that sent `X-Forwarded-For` and is no trusted proxy: all who come through it look like one client.
    package let untrustedProxy: String?
    /// The client's own words, for `safeUserAgent`.
    private let userAgent: String?
    /// The problem's code, if it was refused.
    package let code: ProblemCode?
    /// The private detail of what was refused; for the log only, made of our own words.
    package let privateDetail: String?

    init(
        method: String, route: String, status: Int, duration: Duration, requestID: String, client: String,
        session: SessionHandle? = nil, failed: FailedCallee? = nil, traceID: String? = nil,
        untrustedProxy: String? = nil, userAgent: String?,
        code: ProblemCode?, privateDetail: String?
    ) {
        self.session = session
        self.failed = failed
        self.traceID = traceID
        self.untrustedProxy = untrustedProxy
        self.method = method
        self.route = route
        self.status = status
        self.duration = duration
        self.requestID = requestID
        self.client = client
        self.userAgent = userAgent
        self.code = code
        self.privateDetail = privateDetail
    }

    /// The user agent in printable ASCII, everything else as `?`, at most 200 characters (SEC-115).
    package var safeUserAgent: String? {
        userAgent.map { text in
            // Nearly every one is short and plain.
            guard text.utf8.count > 200 || !text.utf8.allSatisfy({ (0x20...0x7E).contains($0) }) else { return text }
            return String(
                decoding: text.unicodeScalars.lazy.prefix(200).map { scalar in
                    (0x20...0x7E).contains(scalar.value) ? UInt8(truncatingIfNeeded: scalar.value) : UInt8(ascii: "?")
                }, as: UTF8.self)
        }
    }
}

/// Takes request records: one for each request, from the task that served it.
package struct RequestLog: Sendable {
    /// Takes a record; must not block.
    package let record: @Sendable (RequestRecord) -> Void

    /// Creates a log from its closure.
    package init(record: @escaping @Sendable (RequestRecord) -> Void) { self.record = record }
}

extension TraceSpan {
    /// Ends a request's span, named by its method and route template.
    func endRequest(
        _ method: HTTPRequest.Method, _ template: String, _ status: Int, _ problem: BrokerProblem?,
        _ scope: RequestScope
    ) {
        let method = TraceMethod.name(method.rawValue)
        rename(template == "-" ? method : "\(method) \(template)")
        set("http.request.method", method)
        if template != "-" { set("http.route", template) }
        set("http.response.status_code", status)
        set("coatcheck.request_id", scope.requestID)
        if let session = scope.session { set("coatcheck.session", session.text) }
        if let problem { set("error.type", problem.code.rawValue) }
        end(status >= 500 ? problem?.code.rawValue ?? "error" : nil)
    }
}

/// Makes request ids: `req_` and 11 base64url characters of 64 random bits.
///
/// Ours, never the client's (SEC-107).
package enum RequestID {
    /// Returns the id of these random bits.
    ///
    /// Fifteen characters, which a `String` holds without an allocation.
    package static func make(_ bits: UInt64) -> String {
        String(unsafeUninitializedCapacity: 15) { buffer in
            var next = 0
            for byte in "req_".utf8 {
                buffer[next] = byte
                next += 1
            }
            for shift in stride(from: 60, through: 0, by: -6) {
                let index = Int(truncatingIfNeeded: bits >> UInt64(shift) & 63)
                buffer[next] = alphabet[index]
                next += 1
            }
            return next
        }
    }

    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)

    /// Returns a fresh id: the process begins at a random place in a permutation of all 64-bit numbers (SplitMix64), so
    /// none comes twice, and none costs a system call.
    ///
    /// They are names, not secrets.
    package static func fresh() -> String {
        var bits = state.wrappingAdd(0x9E37_79B9_7F4A_7C15, ordering: .relaxed).newValue
        bits = (bits ^ (bits >> 30)) &* 0xBF58_476D_1CE4_E5B9
        bits = (bits ^ (bits >> 27)) &* 0x94D0_49BB_1331_11EB
        return make(bits ^ (bits >> 31))
    }

    private static let state = Atomic<UInt64>(UInt64.random(in: .min ... .max))
}
