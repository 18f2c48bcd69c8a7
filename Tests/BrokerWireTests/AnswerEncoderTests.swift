import HTTPTypes
import NIOCore
import Testing

@testable import BrokerWire

@Suite("The bytes of answers in HTTP/1", .timeLimit(.minutes(1)))
struct AnswerEncoderTests {
    private static let plain = ServerConnection.AnswerFraming()
    private static let old = ServerConnection.AnswerFraming(minorVersion: 0, saysClose: true)
    private static let head = ServerConnection.AnswerFraming(isHead: true)
    private static let stream = Answer.Body.stream(length: nil) { try await $0.finish(nil) }

    /// Returns the bytes for an answer and the pieces of its body.
    private func wire(
        _ answer: Answer, _ framing: ServerConnection.AnswerFraming, pieces: [String] = [],
        trailers: HTTPFields? = nil
    ) -> String {
        var encoder = AnswerEncoder()
        let (bytes, rest) = encoder.begin(answer, framing)
        var text = String(buffer: bytes) + (rest.map { String(buffer: $0) } ?? "")
        for piece in pieces { encoder.framing.pass(ByteBuffer(string: piece)) { text += String(buffer: $0) } }
        if let end = encoder.framing.end(trailers) { text += String(buffer: end) }
        return text
    }

    @Test(
        "A service writes a body to a HEAD request, or with status 204 or 304 → only the head is sent",
        arguments: [
            (204, plain, "HTTP/1.1 204 No Content\r\n\r\n"), (304, plain, "HTTP/1.1 304 Not Modified\r\n\r\n"),
            (200, head, "HTTP/1.1 200 OK\r\n\r\n"),
        ])
    func nothing(status: Int, framing: ServerConnection.AnswerFraming, expected: String) {
        let answer = Answer(.init(code: status), [], body: Self.stream)
        #expect(wire(answer, framing, pieces: ["a", "b"], trailers: [.date: "now"]) == expected)
        let whole = Answer(.init(code: status), [], body: .whole(ByteBuffer(string: "abc")))
        let length = status == 200 ? "Content-Length: 3\r\n" : ""
        #expect(wire(whole, framing) == expected.dropLast() + length + "\r\n")
    }

    @Test(
        "The broker answers HEAD, and the body's length is known → the head has this Content-Length, and no other framing"
    )
    func headKeepsLength() {
        var answer = Answer(.ok, [], body: .whole(ByteBuffer(string: "abc")))
        answer.leaveBodyOut()
        #expect(wire(answer, Self.head) == "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n")
    }

    @Test(
        "An answer's body has an unknown length → sent in chunks, with its trailers at the end; an empty piece → no chunk"
    )
    func chunks() {
        let answer = Answer(.ok, [], body: Self.stream)
        let long = String(repeating: "x", count: 300)
        #expect(
            wire(answer, Self.plain, pieces: ["abc", "", long])
                == "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n12c\r\n\(long)\r\n0\r\n\r\n")
        #expect(
            wire(answer, Self.plain, trailers: [.date: "now"])
                == "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nDate: now\r\n\r\n")
    }

    @Test(
        "An HTTP/1.0 client gets a body of unknown length → sent without chunks, and the connection closes at the body's end"
    )
    func connectionEnd() {
        #expect(
            wire(Answer(.ok, [], body: Self.stream), Self.old, pieces: ["abc", "", "d"], trailers: [.date: "now"])
                == "HTTP/1.0 200 OK\r\nConnection: close\r\n\r\nabcd")
    }

    @Test(
        "An answer's body has a known length → one Content-Length, without other framing",
        arguments: [3, 4096, 4097, 70_000])
    func length(count: Int) {
        let body = String(repeating: "y", count: count)
        let expected = "HTTP/1.1 200 OK\r\nContent-Length: \(count)\r\n\r\n\(body)"
        #expect(wire(Answer(.ok, [], body: .whole(ByteBuffer(string: body))), Self.plain) == expected)
        let stream = Answer(.ok, [], body: .stream(length: count) { try await $0.finish(nil) })
        #expect(wire(stream, Self.plain, pieces: [body]) == expected)
    }

    @Test(
        "An answer's status has no phrase → the usual phrase is sent; its phrase or a field has line breaks → no new line begins"
    )
    func lines() throws {
        #expect(wire(Answer(.init(code: 503), []), Self.plain).hasPrefix("HTTP/1.1 503 Service Unavailable\r\n"))
        #expect(wire(Answer(.init(code: 299), []), Self.plain).hasPrefix("HTTP/1.1 299 \r\n"))
        let name = try #require(HTTPField.Name("X-A"))
        let answer = Answer(
            .init(code: 299, reasonPhrase: "a\r\nX-B: 1"), [HTTPField(name: name, value: "b\r\n\r\nHTTP/1.1 200 OK")])
        let lines = wire(answer, Self.plain).split(separator: "\r\n", omittingEmptySubsequences: false)
        #expect(lines.count == 5)
        #expect(lines.dropFirst().first?.hasPrefix("X-A: b") == true)
    }
}
