package import Broker
import HTTPTypes

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
    let userAgent: String?
    /// The problem's code if the request was refused.
    package let code: ProblemCode?
    /// The private detail of a refusal, made of the broker's own words and only for the log.
    package let privateDetail: String?

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

extension TraceSpan {
    /// Ends the span of a request, and names it after the method and the route's template.
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
