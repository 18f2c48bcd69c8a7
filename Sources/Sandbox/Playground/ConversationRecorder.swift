import Hummingbird
import NIOCore

/// Records the broker's requests to a provider, and the answers.
///
/// The phone records its own messages. Its requests have a mark, by which the recorder distinguishes them from the broker's
/// requests.
struct ConversationRecorder: Sendable {
    /// The header field by which the phone marks its requests; the broker's relay removes it.
    static let mark = "Playground-Caller"

    let conversation: Conversation

    /// Records a request; returns false if the broker did not send it.
    func request(_ call: Call) -> Bool {
        guard call.header(Self.mark) == nil,
            !["authorize", "start", "social", "callback", "launch"].contains(call.endpoint)
        else { return false }
        let target = call.path + (call.query.isEmpty ? "" : "?" + call.query)
        let headers = call.headers.map { ($0.name.rawName, $0.value) }
        conversation.append(
            ConversationMessage(
                kind: .request, from: .broker, to: .provider, who: Self.name(of: call),
                title: MessageText.title(call.method.rawValue, call.path),
                details: MessageText.request(call.method.rawValue, target, headers: headers, body: call.body),
                curl: CurlLine(
                    method: call.method.rawValue, base: "SANDBOX", target: target, headers: headers, body: call.body
                ).text))
        return true
    }

    /// Records an answer; returns it with a body that is still readable.
    func answer(_ response: Response, to call: Call) async throws -> Response {
        var response = response
        var bytes: [UInt8] = []
        if let length = response.body.contentLength, length <= 64 << 10 {
            let collector = BodyCollector()
            try await response.body.write(collector)
            bytes = collector.bytes
            response.body = ResponseBody(byteBuffer: ByteBuffer(bytes: bytes))
        }
        let status = Int(response.status.code)
        conversation.append(
            ConversationMessage(
                kind: .answer, from: .provider, to: .broker, who: Self.name(of: call),
                title: MessageText.status(status), tone: .of(status: status),
                details: MessageText.answer(
                    status, headers: response.headers.map { ($0.name.rawName, $0.value) }, body: bytes)))
        return response
    }

    /// Records that the connection was closed without an answer.
    func dropped(_ call: Call) {
        conversation.append(
            ConversationMessage(
                kind: .answer, from: .provider, to: .broker, who: Self.name(of: call), title: "no answer", tone: .bad,
                details: "The connection was closed without an answer."))
    }

    private static func name(of call: Call) -> String { call.provider.name == "api" ? "API" : "" }
}
