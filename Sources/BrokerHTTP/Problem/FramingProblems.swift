import Broker
import BrokerWire
import HTTPTypes
import NIOCore

/// Answers what never becomes a request: too large a head, or a framing that two readers could read differently.
struct FramingProblems: Sendable {
    private let log: RequestLog
    private let hasStrictTransport: Bool

    /// Creates it; `log` gets one record for each, with the method and route `-`.
    init(log: RequestLog, hasStrictTransport: Bool) {
        self.log = log
        self.hasStrictTransport = hasStrictTransport
    }

    func answer(_ refusal: FramingRefusal, _ connection: ClientConnection) -> Answer {
        let problem =
            switch refusal {
            case .malformed: BrokerProblem(.invalidRequest, detail: "The request is not well-formed HTTP/1.1.")
            case .tooLarge: BrokerProblem(.headersTooLarge)
            case .overLimit: BrokerProblem(.rateLimited, retryAfter: .seconds(5))
            }
        let id = RequestID.fresh()
        var fields = Answers.fields(id)
        if hasStrictTransport { fields.append(SecurityFields.strictTransport) }
        fields.append(ConstantFields.problem)
        if problem.code == .rateLimited { fields.append(HTTPField(name: .retryAfter, value: "6")) }
        log.record(
            RequestRecord(
                method: "-", route: "-", status: problem.code.status, duration: .zero, requestID: id,
                client: connection.peerText, userAgent: nil, code: problem.code, privateDetail: nil))
        return Answer(
            .init(code: problem.code.status), fields,
            body: .whole(ByteBuffer(bytes: ProblemBody.bytes(problem, requestID: id))))
    }
}
