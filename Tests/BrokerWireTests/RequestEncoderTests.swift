import NIOCore
import NIOHTTP1
import Testing

@testable import BrokerWire

@Suite("The bytes of requests in HTTP/1.1", .timeLimit(.minutes(1)))
struct RequestEncoderTests {
    private static let stream = UpstreamRequest.Stream(limit: 1_000_000) { { nil } }

    /// Returns the bytes for a request and the pieces of its body.
    private func wire(_ method: HTTPMethod, _ body: UpstreamRequest.Body, pieces: [String] = []) -> String {
        let request = UpstreamRequest(
            method, "/a?b=c", ["Host": "h", "X-A": "", "x-a": "2"], body: body, within: .seconds(1))
        let (bytes, rest) = RequestEncoder.begin(request)
        var text = String(buffer: bytes) + (rest.map { String(buffer: $0) } ?? "")
        for piece in pieces { request.framing.pass(ByteBuffer(string: piece)) { text += String(buffer: $0) } }
        if let end = request.framing.end() { text += String(buffer: end) }
        return text
    }

    @Test("A request to an upstream has no body → no bytes follow its head, even if a caller writes a body")
    func nothing() {
        let head = "/a?b=c HTTP/1.1\r\nHost: h\r\nX-A: \r\nx-a: 2\r\n"
        #expect(wire(.GET, .none, pieces: ["a"]) == "GET \(head)\r\n")
        #expect(wire(.HEAD, .none) == "HEAD \(head)Connection: close\r\n\r\n")
        #expect(wire(.DELETE, .none) == "DELETE \(head)\r\n")
        #expect(wire(.POST, .none, pieces: ["a"]) == "POST \(head)Content-Length: 0\r\n\r\n")
        #expect(wire(.RAW(value: "PATCH"), .none) == "PATCH \(head)Content-Length: 0\r\n\r\n")
    }

    @Test(
        "A GET, HEAD, DELETE or OPTIONS to an upstream has a body → `Connection: close`, so no call follows on this connection",
        arguments: [HTTPMethod.GET, .HEAD, .DELETE, .OPTIONS])
    func last(method: HTTPMethod) {
        let bodies: [UpstreamRequest.Body] = [
            .whole(ByteBuffer(string: "abc")), .stream(Self.stream, length: 3), .stream(Self.stream, length: nil),
        ]
        for body in bodies {
            let request = UpstreamRequest(
                method, "/", ["Host": "h", "Connection": "keep-alive"], body: body, within: .seconds(1))
            #expect(request.endsConnection && request.hasBody)
            #expect(request.head.headers["Connection"] == ["close"])
        }
        for body in [UpstreamRequest.Body.none, .whole(ByteBuffer()), .stream(Self.stream, length: 0)] {
            let request = UpstreamRequest(method, "/", ["Host": "h"], body: body, within: .seconds(1))
            #expect(request.endsConnection == (method == .HEAD) && !request.hasBody)
        }
        let post = UpstreamRequest(.POST, "/", ["Host": "h"], body: bodies[0], within: .seconds(1))
        #expect(!post.endsConnection && post.hasBody)
    }

    @Test(
        "A request to an upstream has a body of known length → sent unchanged, with one Content-Length",
        arguments: [0, 3, 4096, 4097, 70_000])
    func length(count: Int) {
        let body = String(repeating: "y", count: count)
        let expected =
            "PUT /a?b=c HTTP/1.1\r\nHost: h\r\nX-A: \r\nx-a: 2\r\nContent-Length: \(count)\r\n\r\n\(body)"
        #expect(wire(.PUT, .whole(ByteBuffer(string: body))) == expected)
        #expect(wire(.PUT, .stream(Self.stream, length: count), pieces: [body]) == expected)
    }

    @Test("A request to an upstream has a body of unknown length → sent in chunks; an empty piece of it → no chunk")
    func chunks() {
        let head = "POST /a?b=c HTTP/1.1\r\nHost: h\r\nX-A: \r\nx-a: 2\r\nTransfer-Encoding: chunked\r\n\r\n"
        let long = String(repeating: "x", count: 300)
        let stream = UpstreamRequest.Body.stream(Self.stream, length: nil)
        #expect(wire(.POST, stream, pieces: ["abc", "", long]) == head + "3\r\nabc\r\n12c\r\n\(long)\r\n0\r\n\r\n")
        #expect(wire(.POST, stream) == head + "0\r\n\r\n")
    }
}
