import Broker
import HTTPTypes
import NIOCore
import NIOHTTP1

/// Answers requests that never become one: too large a head, or a framing that two readers could read differently.
package struct FramingProblems: Sendable {
    private let log: RequestLog
    private let hasStrictTransport: Bool

    /// Creates it; `log` gets one record for each, with the method and route `-`.
    package init(log: RequestLog, hasStrictTransport: Bool) {
        self.log = log
        self.hasStrictTransport = hasStrictTransport
    }

    func answer(_ refusal: FramingRefusal, _ connection: ClientConnection) -> FramingAnswer {
        let code: ProblemCode = refusal == .tooLarge ? .headersTooLarge : .invalidRequest
        let detail = refusal == .tooLarge ? nil : "The request is not well-formed HTTP/1.1."
        let id = RequestID.fresh()
        let body = ProblemBody.bytes(BrokerProblem(code, detail: detail), requestID: id)
        var headers = HTTPHeaders()
        for field in SecurityFields.all + (hasStrictTransport ? [SecurityFields.strictTransport] : []) {
            headers.add(name: field.name.rawName, value: field.value)
        }
        headers.add(name: "X-Request-Id", value: id)
        headers.add(name: "Cache-Control", value: "no-store")
        headers.add(name: "Content-Type", value: "application/problem+json")
        headers.add(name: "Content-Length", value: String(body.count))
        headers.add(name: "Connection", value: "close")
        log.record(
            RequestRecord(
                method: "-", route: "-", status: code.status, duration: .zero, requestID: id,
                client: connection.peerText, userAgent: nil, code: code, privateDetail: nil))
        let status = HTTPResponseStatus(statusCode: code.status)
        return FramingAnswer(
            head: HTTPResponseHead(version: .http1_1, status: status, headers: headers), body: ByteBuffer(bytes: body))
    }
}
