package import Broker
import HTTPTypes
import Synchronization

/// The facts about one request that the log may contain.
///
/// The raw path, the query, cookies and the body are never logged (SEC-114, SEC-118).
package struct RequestRecord: Sendable {
    /// The method; `-` if the request could not be read.
    package let method: String
    /// The route's template (`/v1/sessions/{handle}`); `-` if no route was found.
    package let route: String
    package let status: Int
    /// The time from the request's head to the answer's head.
    ///
    /// The time for a streamed body is left out.
    package let duration: Duration
    package let requestID: String
    /// The address of the client behind trusted proxies.
    package let client: String
    /// The session that the request presented or created; nil if it is unknown or the route did not look it up.
    package let session: SessionHandle?
    /// The upstream whose call failed, and the API that its token was for; nil without such a failure.
    package let failed: FailedCallee?
    /// The trace of the request; nil if tracing is off.
    package let traceID: String?
    /// The TCP peer that sent `X-Forwarded-For` but is not a trusted proxy.
    ///
    /// All clients behind this peer count as one client.
    package let untrustedProxy: String?
    /// The `User-Agent` as the client sent it; `safeUserAgent` makes it safe for the log.
    private let userAgent: String?
    /// The problem's code if the request was refused.
    package let code: ProblemCode?
    /// The private detail of a refusal, made of the broker's own words and only for the log.
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

    /// The user agent for the log (SEC-115): printable ASCII, with `?` for other characters, at most 200 characters.
    package var safeUserAgent: String? {
        userAgent.map { text in
            // Nearly every user agent is short and plain.
            guard text.utf8.count > 200 || !text.utf8.allSatisfy({ (0x20...0x7E).contains($0) }) else { return text }
            return String(
                decoding: text.unicodeScalars.lazy.prefix(200).map { scalar in
                    (0x20...0x7E).contains(scalar.value) ? UInt8(truncatingIfNeeded: scalar.value) : UInt8(ascii: "?")
                }, as: UTF8.self)
        }
    }
}

/// Receives one record for each request, from the task that served it.
package struct RequestLog: Sendable {
    /// Receives a record; the closure must not block.
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
/// The broker ignores ids that clients send (SEC-107).
package enum RequestID {
    /// Returns the request id that is made from these random bits.
    ///
    /// A `String` stores these fifteen characters inline, so the id costs no allocation.
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

    /// Returns a fresh id, unique in this process and made without a system call.
    ///
    /// The process begins at a random position in a permutation of all 64-bit numbers (SplitMix64). Ids are only names, so they
    /// need not be secret.
    package static func fresh() -> String {
        var bits = state.wrappingAdd(0x9E37_79B9_7F4A_7C15, ordering: .relaxed).newValue
        bits = (bits ^ (bits >> 30)) &* 0xBF58_476D_1CE4_E5B9
        bits = (bits ^ (bits >> 27)) &* 0x94D0_49BB_1331_11EB
        return make(bits ^ (bits >> 31))
    }

    private static let state = Atomic<UInt64>(UInt64.random(in: .min ... .max))
}
