import AsyncHTTPClient
import NIOCore
import NIOHTTP1

/// An upstream's response: its head, and its body as it is asked for.
///
/// Let go unread, it closes its connection (SEC-79).
final class UpstreamResponse: AsyncSequence, Sendable {
    typealias Element = ByteBuffer

    let status: HTTPResponseStatus
    let headers: HTTPHeaders
    private let exchange: UpstreamExchange

    init(_ head: HTTPResponseHead, _ exchange: UpstreamExchange) {
        status = head.status
        headers = head.headers
        self.exchange = exchange
    }

    deinit { exchange.cancel(HTTPClientError.cancelled) }

    func makeAsyncIterator() -> AsyncIterator { AsyncIterator(response: self) }

    struct AsyncIterator: AsyncIteratorProtocol {
        let response: UpstreamResponse

        mutating func next() async throws -> ByteBuffer? { try await response.exchange.next() }
    }

    /// Reads the body to its end; throws `upstream_error`'s cause when it is longer than `length`.
    func collect(upTo length: Int) async throws -> ByteBuffer {
        guard var whole = try await exchange.next() else { return ByteBuffer() }
        while var piece = try await exchange.next() {
            whole.writeBuffer(&piece)
            guard whole.readableBytes <= length else { throw NIOTooManyBytesError(maxBytes: length) }
        }
        guard whole.readableBytes <= length else { throw NIOTooManyBytesError(maxBytes: length) }
        return whole
    }
}
