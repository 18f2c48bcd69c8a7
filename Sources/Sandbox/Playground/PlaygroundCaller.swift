import AsyncHTTPClient
import NIOCore
import NIOHTTP1

/// The phone's HTTP client, which never follows redirects itself and records all messages.
struct PlaygroundCaller: Sendable {
    /// The error of an unanswered request.
    ///
    /// The receiver is unreachable, or has closed the connection.
    struct NoAnswer: Error {}

    private static let client: HTTPClient = {
        var configuration = HTTPClient.Configuration(redirectConfiguration: .disallow)
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = 64
        // An open connection would hide that the broker was killed.
        configuration.connectionPool.idleTimeout = .milliseconds(200)
        configuration.timeout.connect = .seconds(3)
        return HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    }()

    let conversation: Conversation
    let broker: String
    let provider: @Sendable () -> String

    /// Sends a request and waits for the whole answer.
    func send(_ request: PlaygroundRequest) async throws(NoAnswer) -> PlaygroundAnswer {
        if request.isRecorded { conversation.append(Self.message(of: request)) }
        let answer: PlaygroundAnswer
        do {
            let response = try await Self.client.execute(outgoing(request), timeout: .seconds(45))
            let body = try await response.body.collect(upTo: 4 << 20)
            answer = PlaygroundAnswer(
                status: Int(response.status.code), headers: response.headers.map { ($0.name, $0.value) },
                body: Array(body.readableBytesView))
        } catch {
            if request.isRecorded { conversation.append(Self.silence(to: request)) }
            throw NoAnswer()
        }
        keepCookies(of: answer.headers, for: request)
        if request.isRecorded { conversation.append(Self.message(of: answer, to: request)) }
        return answer
    }

    /// Opens an event stream and passes on each event, until the stream ends.
    func listen(
        _ request: PlaygroundRequest, opened: @Sendable (PlaygroundAnswer) async -> Bool,
        event: @Sendable (String, JSON) async -> Void
    ) async throws {
        conversation.append(Self.message(of: request, streams: true))
        let response: HTTPClientResponse
        do {
            response = try await Self.client.execute(outgoing(request), timeout: .hours(12))
        } catch {
            conversation.append(Self.silence(to: request))
            throw NoAnswer()
        }
        let headers = response.headers.map { ($0.name, $0.value) }
        guard response.status == .ok else {
            let body = Array(try await response.body.collect(upTo: 1 << 20).readableBytesView)
            let answer = PlaygroundAnswer(status: Int(response.status.code), headers: headers, body: body)
            keepCookies(of: headers, for: request)
            conversation.append(Self.message(of: answer, to: request))
            _ = await opened(answer)
            return
        }
        let answer = PlaygroundAnswer(status: 200, headers: headers, body: [])
        conversation.append(Self.message(of: answer, to: request))
        guard await opened(answer) else { return }
        var parser = EventParser()
        for try await chunk in response.body {
            for (name, data) in parser.take(chunk.readableBytesView) {
                let json = (try? JSON.parse(Array(data.utf8))) ?? .null
                conversation.append(
                    ConversationMessage(
                        kind: .event, from: .broker, to: .app, title: "event: " + name,
                        tone: name == "session_ended" ? .warning : .good,
                        details: "event: \(name)\n\n" + Shortened.json(json).indented()))
                await event(name, json)
            }
        }
    }

    private func outgoing(_ request: PlaygroundRequest) -> HTTPClientRequest {
        let base = request.to == .broker ? broker : provider()
        var outgoing = HTTPClientRequest(url: base + request.target)
        outgoing.method = HTTPMethod(rawValue: request.method)
        for (name, value) in Self.headers(of: request) { outgoing.headers.add(name: name, value: value) }
        outgoing.headers.add(name: ConversationRecorder.mark, value: "phone")
        outgoing.headers.add(name: "User-Agent", value: "playground")
        if !request.body.isEmpty { outgoing.body = .bytes(ByteBuffer(bytes: request.body)) }
        return outgoing
    }

    private func keepCookies(of headers: [(String, String)], for request: PlaygroundRequest) {
        for (name, value) in headers where name.lowercased() == "set-cookie" { request.jar?.take(value) }
    }

    private static func headers(of request: PlaygroundRequest) -> [(String, String)] {
        request.headers + (request.jar?.field.map { [("Cookie", $0)] } ?? [])
    }

    private static func message(of request: PlaygroundRequest, streams: Bool = false) -> ConversationMessage {
        let headers = headers(of: request)
        let usual = CurlLine(
            method: request.method, base: request.to == .broker ? "BROKER" : "SANDBOX", target: request.target,
            headers: request.who == "thief" ? headers : request.headers, body: request.body,
            jar: request.jar == nil || request.who == "thief"
                ? nil : ["tablet": "tablet.txt", PlaygroundPhone.webView: "web.txt"][request.who] ?? "jar.txt",
            streams: streams, capture: request.capture)
        return ConversationMessage(
            kind: .request, from: .app, to: request.to, who: request.who,
            title: MessageText.title(request.method, request.target),
            tone: request.who == "thief" ? .bad : .plain,
            details: MessageText.request(request.method, request.target, headers: headers, body: request.body),
            curl: (request.curl ?? usual).text)
    }

    private static func message(of answer: PlaygroundAnswer, to request: PlaygroundRequest) -> ConversationMessage {
        let code = answer.code
        return ConversationMessage(
            kind: .answer, from: request.to, to: .app, who: request.who,
            title: code.isEmpty || answer.status < 400
                ? MessageText.status(answer.status) : "\(answer.status) \(code)",
            tone: tone(of: answer, to: request),
            details: MessageText.answer(answer.status, headers: answer.headers, body: answer.body))
    }

    /// The tone of an answer.
    ///
    /// A thief's success is bad, and a thief's refusal is good.
    private static func tone(of answer: PlaygroundAnswer, to request: PlaygroundRequest) -> ConversationMessage.Tone {
        guard request.who == "thief" else { return .of(status: answer.status) }
        return answer.status < 400 ? .bad : .good
    }

    private static func silence(to request: PlaygroundRequest) -> ConversationMessage {
        ConversationMessage(
            kind: .answer, from: request.to, to: .app, who: request.who, title: "no answer", tone: .bad,
            details: "The connection was refused, or closed without an answer.")
    }
}
