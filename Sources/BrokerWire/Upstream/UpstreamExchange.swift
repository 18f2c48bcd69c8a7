import NIOCore
import NIOHTTP1

/// One call to an upstream: its request, and its answer, which the connection passes to the reading task.
///
/// An exchange is used only on its event loop. The reading task is notified of the call's end only after the reading of the
/// request's body has ended.
final class UpstreamExchange {
    /// An answer's head.
    struct Head: Sendable {
        let head: HTTPResponseHead
        /// Whether the head came before the request's end was sent.
        let isEarly: Bool
        /// Whether the request was sent once before, with an unknown result.
        let isRepeated: Bool
    }

    /// The largest number of bytes of the answer's body that may wait to be read.
    private static let ahead = 65_536
    /// The largest piece, in bytes, that is made by merging small pieces.
    private static let merged = 8192

    let request: UpstreamRequest
    /// Whether the request is sent for the second time.
    var isRepeated = false
    /// The latest time at which the connection must be made.
    var connectBy = NIODeadline.distantPast
    /// The connection that carries the call; nil before there is one.
    var connection: UpstreamConnectionHandler?
    /// The reason why the request's body is incomplete.
    var requestFault: (any Error)?
    private var sender: Task<Void, Never>?
    private var isSending = false
    private var head: Head?
    /// Whether the head may be passed on before the first piece of the body; `headTimer` limits the wait for this piece.
    private var isHeadDue = false
    private var headTimer: Scheduled<Void>?
    private var headReader: CheckedContinuation<Result<Head, UpstreamFailure>, Never>?
    private var pieces = CircularBuffer<ByteBuffer>(initialCapacity: 2)
    private var bytes = 0
    private var reader: CheckedContinuation<Result<ByteBuffer?, UpstreamFailure>, Never>?
    /// The call's result; nil until the call has ended.
    private var end: Result<Void, UpstreamFailure>?

    init(_ request: UpstreamRequest) { self.request = request }

    /// Whether the call has ended.
    var isOver: Bool { end != nil }

    // MARK: Requests of the task

    /// Gives the answer's head to the task, at once or when the head arrives.
    func readHead(_ continuation: CheckedContinuation<Result<Head, UpstreamFailure>, Never>) {
        headReader = continuation
        tell()
    }

    /// Takes the next piece of the answer's body; the result contains nil at the body's end.
    ///
    /// Returns nil if neither a piece nor the end has arrived.
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

    /// Gives the answer's next piece to the task, at once or when the piece arrives.
    func read(_ continuation: CheckedContinuation<Result<ByteBuffer?, UpstreamFailure>, Never>) {
        reader = continuation
        tell()
    }

    /// Abandons the call together with its connection, unless the call has ended.
    func cancel() {
        if let connection { return connection.abandon() }
        finish(.failure(.abandoned))
    }

    // MARK: Events of the connection

    /// Stores the task that reads the request's body, so that it can be cancelled.
    func isSent(by task: Task<Void, Never>) { if isSending { sender = task } }

    func sendingBegins() { isSending = true }

    /// Notes that the reading of the request's body has ended.
    func sendingEnded() {
        isSending = false
        sender = nil
        tell()
    }

    func receive(_ head: HTTPResponseHead, isEarly: Bool) {
        self.head = Head(head: head, isEarly: isEarly, isRepeated: isRepeated)
        // Pass the head of an early answer on at once. The upstream may send the answer's body only after it has received the
        // rest of the request, while the request's sender waits for this head.
        isHeadDue = isEarly
        tell()
    }

    /// Notes that all received bytes are decoded.
    ///
    /// If the head has arrived without the beginning of its body, the task receives the head after `hold`.
    func awaitsBody(for hold: TimeAmount, on eventLoop: any EventLoop) {
        guard head != nil, !isHeadDue, headTimer == nil, headReader != nil else { return }
        headTimer = eventLoop.assumeIsolated().scheduleTask(in: hold) {
            self.isHeadDue = true
            self.tell()
        }
    }

    /// Stores a piece of the answer's body; returns false if the reader has enough for now.
    ///
    /// Waiting pieces are merged, so that many small pieces cost no more memory than their content.
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

    /// Ends the call with its result.
    func finish(_ end: Result<Void, UpstreamFailure>) {
        guard self.end == nil else { return }
        self.end = isRepeated ? end.mapError(\.afterSending) : end
        sender?.cancel()
        tell()
    }

    /// Resumes each waiting continuation whose result is available.
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

    /// The result for the task that waits for the answer's head.
    ///
    /// In three cases, the result is the head: a piece of the body has arrived; the answer is complete; or the wait for the body
    /// is over. If the call failed before all three, the result is its failure. Nil means that the task must wait longer.
    private var nextHead: Result<Head, UpstreamFailure>? {
        switch end {
        case .failure(let failure) where pieces.isEmpty && !isHeadDue: isSending ? nil : .failure(failure)
        case nil where pieces.isEmpty && !isHeadDue: nil
        default: head.map { .success($0) }
        }
    }

    /// Returns the call's failure for a failure of the connection.
    func failure(_ failure: UpstreamConnection.Failure) -> UpstreamFailure {
        guard failure == .requestCut, let requestFault else { return .call(failure) }
        return requestFault as? UpstreamFailure ?? .request(requestFault)
    }
}

@available(*, unavailable)
extension UpstreamExchange: Sendable {}

extension NIOLoopBoundBox where Value == UpstreamExchange {
    /// Abandons the call, from any thread.
    func cancel() {
        if eventLoop.inEventLoop { value.cancel() } else { eventLoop.execute { self.value.cancel() } }
    }

    /// Runs `ask` on the call's event loop and waits for its result, on any thread.
    ///
    /// Cancelling the task abandons the call.
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
            // Use `execute` even on this event loop, because the wait that is being cancelled may be only half set up.
            eventLoop.execute { self.value.cancel() }
        }
    }
}
