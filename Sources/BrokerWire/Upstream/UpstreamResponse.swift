package import NIOCore
package import NIOHTTP1

/// An upstream's response: its head, and its body as it is asked for.
///
/// Let go unread, it closes its connection (SEC-79).
package final class UpstreamResponse: Sendable {
    package let status: HTTPResponseStatus
    package let headers: HTTPHeaders
    /// Whether it came before the request was sent to its end.
    package let isEarly: Bool
    private let exchange: NIOLoopBoundBox<UpstreamExchange>

    init(_ head: UpstreamExchange.Head, _ exchange: NIOLoopBoundBox<UpstreamExchange>) {
        status = head.head.status
        headers = head.head.headers
        isEarly = head.isEarly
        self.exchange = exchange
    }

    deinit { exchange.cancel() }

    /// Returns the body's next piece, nil at its end; throws when the upstream breaks off.
    package func next() async throws(UpstreamFailure) -> ByteBuffer? {
        if exchange.eventLoop.inEventLoop, let ready = exchange.value.take() { return try ready.get() }
        return try await exchange.wait { $0.read($1) }.get()
    }

    /// Reads the body to its end; throws when it is longer than `length`.
    package func collect(upTo length: Int) async throws(UpstreamFailure) -> ByteBuffer {
        guard var whole = try await next() else { return ByteBuffer() }
        while var piece = try await next() { whole.writeBuffer(&piece) }
        guard whole.readableBytes <= length else { throw .call(.malformed) }
        return whole
    }
}

extension NIOLoopBoundBox where Value == UpstreamExchange {
    /// Gives the call up, from any thread.
    func cancel() {
        if eventLoop.inEventLoop { value.cancel() } else { eventLoop.execute { self.value.cancel() } }
    }

    /// Waits, on any thread, for what `ask` asks the call for on its event loop; cancelled, it gives the call up.
    func wait<Answer: Sendable>(
        _ ask: @escaping @Sendable (UpstreamExchange, CheckedContinuation<Answer, Never>) -> Void
    ) async -> Answer {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                if eventLoop.inEventLoop {
                    ask(value, continuation)
                } else {
                    eventLoop.execute { ask(self.value, continuation) }
                }
            }
        } onCancel: {
            // Later, and not at once: what was there to be cancelled may be half-way into its wait.
            eventLoop.execute { self.value.cancel() }
        }
    }
}
