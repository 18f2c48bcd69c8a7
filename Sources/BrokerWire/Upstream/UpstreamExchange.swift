package import NIOCore
package import NIOHTTP1

/// One call: its request, and its answer on the way from the connection to the task that reads it.
///
/// It lives on its event loop. Nobody hears of the call's end before the reading of the request's body has ended.
final class UpstreamExchange {
    /// An answer's head.
    struct Head: Sendable {
        let head: HTTPResponseHead
        /// Whether it came before the request's end was sent.
        let isEarly: Bool
        /// Whether the request was sent before, and nobody knows what became of it.
        let isRepeated: Bool
    }

    /// The most bytes of a body that may wait for their reader.
    private static let ahead = 65_536
    /// Pieces that wait are made one up to this size.
    private static let merged = 8192

    let request: UpstreamRequest
    /// Whether it was sent again.
    var isRepeated = false
    /// The time until which a connection for it may be made.
    var connectBy = NIODeadline.distantPast
    /// The connection that it is on.
    var connection: UpstreamConnectionHandler?
    /// The reason for which the request's body is not whole.
    var requestFault: (any Error)?
    private var sender: Task<Void, Never>?
    private var isSending = false
    private var head: Head?
    /// Whether the head has waited for a piece of the body long enough, and what says so.
    private var isHeadDue = false
    private var headTimer: Scheduled<Void>?
    private var headReader: CheckedContinuation<Result<Head, UpstreamFailure>, Never>?
    private var pieces = CircularBuffer<ByteBuffer>(initialCapacity: 2)
    private var bytes = 0
    private var reader: CheckedContinuation<Result<ByteBuffer?, UpstreamFailure>, Never>?
    /// The end of the call.
    private var end: Result<Void, UpstreamFailure>?

    init(_ request: UpstreamRequest) { self.request = request }

    /// Whether the call has ended.
    var isOver: Bool { end != nil }

    // MARK: What the task asks

    /// Hands the head to the task, now or when it has come.
    func readHead(_ continuation: CheckedContinuation<Result<Head, UpstreamFailure>, Never>) {
        headReader = continuation
        tell()
    }

    /// Takes the next piece of the answer's body, nil at its end; returns nil while there is nothing.
    func take() -> Result<ByteBuffer?, UpstreamFailure>? {
        guard let piece = pieces.popFirst() else {
            guard !isSending, let end else { return nil }
            connection?.taken()
            return end.map { nil }
        }
        let before = bytes
        bytes -= piece.readableBytes
        if before >= Self.ahead, bytes < Self.ahead { connection?.wants(true) }
        return .success(piece)
    }

    /// Hands the next piece to the task, now or when it has come.
    func read(_ continuation: CheckedContinuation<Result<ByteBuffer?, UpstreamFailure>, Never>) {
        reader = continuation
        tell()
    }

    /// Gives the call up, and its connection with it, unless it has ended.
    func cancel() {
        if let connection { return connection.abandon() }
        finish(.failure(.abandoned))
    }

    // MARK: What the connection tells

    /// Takes note of who reads the request's body.
    func isSent(by task: Task<Void, Never>) { if isSending { sender = task } }

    func sendingBegins() { isSending = true }

    /// Takes note that the request's body is read no more.
    func sendingEnded() {
        isSending = false
        sender = nil
        tell()
    }

    func receive(_ head: HTTPResponseHead, isEarly: Bool) {
        self.head = Head(head: head, isEarly: isEarly, isRepeated: isRepeated)
        // The body of an early answer may wait for the rest of the request, and its sender for the head.
        isHeadDue = isEarly
        tell()
    }

    /// Takes note that nothing more has come for now: a head whose body has not begun is told after a while.
    func awaitsBody(for hold: TimeAmount, on eventLoop: any EventLoop) {
        guard head != nil, !isHeadDue, headTimer == nil, headReader != nil else { return }
        headTimer = eventLoop.assumeIsolated().scheduleTask(in: hold) {
            self.isHeadDue = true
            self.tell()
        }
    }

    /// Takes a piece of the answer's body; false when that is enough for now.
    ///
    /// What waits is merged, so that many small pieces cost what they hold.
    func receive(_ piece: ByteBuffer) -> Bool {
        if reader == nil, !pieces.isEmpty { merge(piece) } else { pieces.append(piece) }
        bytes += piece.readableBytes
        tell()
        return bytes < Self.ahead
    }

    private func merge(_ piece: ByteBuffer) {
        guard let last = pieces.last, last.readableBytes + piece.readableBytes <= Self.merged else {
            return pieces.append(piece.compact)
        }
        var whole = pieces.removeLast().compact
        whole.writeImmutableBuffer(piece)
        pieces.append(whole)
    }

    /// Ends the call.
    func finish(_ end: Result<Void, UpstreamFailure>) {
        guard self.end == nil else { return }
        self.end = isRepeated ? end.mapError(\.afterSending) : end
        sender?.cancel()
        tell()
    }

    /// Tells whoever waits what there is.
    private func tell() {
        if let waiting = headReader, let next = nextHead {
            headReader = nil
            headTimer?.cancel()
            waiting.resume(returning: next)
        }
        if let waiting = reader {
            reader = nil
            if let next = take() { waiting.resume(returning: next) } else { reader = waiting }
        }
    }

    /// The head, once there is a body behind it or has to be none; or why there is none.
    private var nextHead: Result<Head, UpstreamFailure>? {
        switch end {
        case .failure(let failure) where pieces.isEmpty && !isHeadDue: isSending ? nil : .failure(failure)
        case nil where pieces.isEmpty && !isHeadDue: nil
        default: head.map { .success($0) }
        }
    }

    /// Says why the call failed on its connection.
    func failure(_ failure: UpstreamConnection.Failure) -> UpstreamFailure {
        guard failure == .requestCut, let requestFault else { return .call(failure) }
        return requestFault as? UpstreamFailure ?? .request(requestFault)
    }
}

@available(*, unavailable)
extension UpstreamExchange: Sendable {}

/// An upstream's response: its head, and its body as it is asked for.
///
/// Let go unread, it closes its connection (SEC-79).
package final class UpstreamResponse: Sendable {
    package let status: HTTPResponseStatus
    package let headers: HTTPHeaders
    /// Whether it came before the request was sent to its end.
    package let isEarly: Bool
    /// Whether the request was sent before, and nobody knows what became of it.
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

    /// Returns the body's next piece, nil at its end; throws when the upstream breaks off.
    package func next() async throws(UpstreamFailure) -> ByteBuffer? {
        if exchange.eventLoop.inEventLoop, let ready = exchange.value.take() { return try ready.get() }
        return try await exchange.wait { $0.read($1) }.get()
    }

    /// Gives the rest up and closes the connection, from any thread; whoever waits for the next piece hears of it.
    package func abandon() { exchange.cancel() }

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
