package import NIOCore
package import NIOHTTP1

/// An upstream's response: its head, and its body on demand.
///
/// A response that is dropped unread closes its connection (SEC-79).
package final class UpstreamResponse: Sendable {
    package let status: HTTPResponseStatus
    package let headers: HTTPHeaders
    /// Whether the response came before the request was sent completely.
    package let isEarly: Bool
    /// Whether the request was sent once before, with an unknown result.
    package let isRepeated: Bool
    private let exchange: NIOLoopBoundBox<UpstreamExchange>

    init(_ head: UpstreamExchange.Head, _ exchange: NIOLoopBoundBox<UpstreamExchange>) {
        status = head.head.status
        headers = head.head.headers
        isEarly = head.isEarly
        isRepeated = head.isRepeated
        self.exchange = exchange
    }

    deinit { exchange.cancel() }

    /// Returns the body's next piece, or nil at its end; throws if the upstream breaks off.
    package func next() async throws(UpstreamFailure) -> ByteBuffer? {
        if exchange.eventLoop.inEventLoop, let ready = exchange.value.take() { return try ready.get() }
        return try await exchange.wait { $0.read($1) }.get()
    }

    /// Abandons the rest of the response and closes the connection, from any thread.
    ///
    /// A `next` in progress then throws.
    package func abandon() { exchange.cancel() }

    /// Reads the body to its end; throws if it is longer than `length`.
    package func collect(upTo length: Int) async throws(UpstreamFailure) -> ByteBuffer {
        guard var whole = try await next() else { return ByteBuffer() }
        while var piece = try await next() { whole.writeBuffer(&piece) }
        guard whole.readableBytes <= length else { throw .call(.malformed) }
        return whole
    }
}
