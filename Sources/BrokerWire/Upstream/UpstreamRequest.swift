package import NIOCore
package import NIOHTTP1

/// A request to an upstream.
package struct UpstreamRequest: Sendable {
    /// A body that is read once, while it is sent.
    package struct Stream: Sendable {
        /// The highest number of bytes of a body of unannounced length.
        private(set) var limit: Int
        /// Begins to read the body.
        ///
        /// The returned closure returns the next piece, and nil at the end.
        package let read: @Sendable () -> () async throws -> ByteBuffer?

        package init(limit: Int, read: @escaping @Sendable () -> () async throws -> ByteBuffer?) {
            self.limit = limit
            self.read = read
        }

        /// Wraps a sequence, which is iterated at most once.
        package init<Base: AsyncSequence & Sendable>(_ base: Base) where Base.Element == ByteBuffer {
            self.init(limit: .max) {
                var iterator = base.makeAsyncIterator()
                return { try await iterator.next(isolation: #isolation) }
            }
        }

        /// Returns a copy of the stream with a limit on its bytes.
        ///
        /// Sending more than `limit` bytes fails. The limit applies only if the request does not announce the body's length.
        package func limited(to limit: Int) -> Stream {
            var copy = self
            copy.limit = limit
            return copy
        }
    }

    /// A request's body.
    package enum Body: Sendable {
        case none
        case whole(ByteBuffer)
        case stream(Stream, length: Int?)

        fileprivate var isThere: Bool {
            switch self {
            case .none: false
            case .whole(let buffer): buffer.readableBytes > 0
            case .stream(_, let length): length != 0
            }
        }
    }

    let head: HTTPRequestHead
    let body: Body
    /// Whether a body follows the head.
    let hasBody: Bool
    /// Whether the connection must end with this call; the request then has `Connection: close`.
    let endsConnection: Bool
    /// The longest time for the answer's head to arrive, in nanoseconds.
    let limit: Int64
    /// The time when the call began.
    let begun = Int64(clamping: NIODeadline.now().uptimeNanoseconds)

    /// Creates a request.
    ///
    /// `headers` must not contain fields for the body's framing (SEC-79).
    package init(
        _ method: HTTPMethod, _ target: String, _ headers: HTTPHeaders, body: Body = .none, within limit: TimeAmount
    ) {
        var headers = headers
        switch body {
        case .whole(let buffer): headers.add(name: "Content-Length", value: String(buffer.readableBytes))
        case .stream(_, let length?): headers.add(name: "Content-Length", value: String(length))
        case .stream(_, nil): headers.add(name: "Transfer-Encoding", value: "chunked")
        case .none:
            // For methods whose requests often have a body, the length 0 shows that this request has no body (RFC 9110 section
            // 8.6).
            if ![.GET, .HEAD, .DELETE].contains(method) { headers.add(name: "Content-Length", value: "0") }
        }
        hasBody = body.isThere
        // Many servers send a body with an answer to HEAD, and leave an unexpected request body unread. On a kept connection,
        // the body of the answer would be read as the answer to another user's next call. The upstream would read the rest of
        // the request body as another call.
        endsConnection = method == .HEAD || (hasBody && Self.bodiless.contains(method))
        if endsConnection { headers.replaceOrAdd(name: "Connection", value: "close") }
        head = HTTPRequestHead(version: .http1_1, method: method, uri: target, headers: headers)
        self.body = body
        self.limit = limit.nanoseconds
    }

    /// The methods whose requests many servers expect to have no body (RFC 9110 section 9.3).
    private static let bodiless: [HTTPMethod] = [.GET, .DELETE, .OPTIONS, .TRACE]

    /// The framing of the body.
    var framing: BodyFraming {
        switch body {
        case .none: .none
        case .whole, .stream(_, .some): .plain
        case .stream(_, nil): .chunked
        }
    }

    /// Whether the body is read while it is sent.
    var isStreamed: Bool {
        if case .stream = body { true } else { false }
    }

    /// Whether the request can be sent again: its method is idempotent (RFC 9110 section 9.2.2), its body is available, and it
    /// has no DPoP proof.
    ///
    /// A proof may be sent only once (RFC 9449 section 11.1).
    var canBeRepeated: Bool {
        !isStreamed && [.GET, .HEAD, .PUT, .DELETE, .OPTIONS].contains(head.method)
            && !head.headers.contains(name: "DPoP")
    }
}

/// Encodes requests to upstreams in the form of HTTP/1.1 (RFC 9112).
///
/// The relay has checked the target and the field values, so a value cannot end its line.
enum RequestEncoder {
    /// The largest body, in bytes, that is copied behind its head, because a second write would cost more than the copy.
    private static let copied = 4096

    /// Returns a request's head, followed by its complete body if that is small.
    ///
    /// A larger complete body is returned in `rest`.
    static func begin(_ request: UpstreamRequest) -> (bytes: ByteBuffer, rest: ByteBuffer?) {
        var behind: ByteBuffer?
        var rest: ByteBuffer?
        if case .whole(let whole) = request.body {
            if whole.readableBytes <= copied { behind = whole } else { rest = whole }
        }
        let (method, target) = (request.head.method.rawValue, request.head.uri)
        var bytes = HeadWriter.buffer(more: behind?.readableBytes ?? 0) { writer in
            writer.text(method)
            writer.text(" ")
            writer.text(target)
            writer.text(" HTTP/1.1")
            writer.endLine()
            for (name, value) in request.head.headers { writer.field(name, value) }
            writer.endLine()
        }
        if let behind { bytes.writeImmutableBuffer(behind) }
        return (bytes, rest)
    }
}
