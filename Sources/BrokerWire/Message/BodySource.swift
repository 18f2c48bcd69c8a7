import NIOCore

/// The connection's access to a request's body, which passes pieces to the reader and reports when the reader wants more.
final class BodySource {
    private let source: RequestBody.Base.Source
    private let end = BodyEnd()

    private init(_ source: RequestBody.Base.Source) { self.source = source }

    /// Whether the body was read to its end.
    var isRead: Bool { end.isReached }

    /// Returns a body and its source.
    ///
    /// `wanted` is called on the event loop when the reader has read nearly all pieces that wait. `began` is called at the first
    /// read, and `fail` when the body is abandoned. `drop` discards the body.
    static func make(
        on eventLoop: any EventLoop, wanted: @escaping @Sendable () -> Void, began: @escaping @Sendable () -> Void,
        fail: @escaping @Sendable (BodyFault) -> Void, drop: @escaping @Sendable () -> Void
    ) -> (RequestBody, BodySource) {
        let made = RequestBody.Base.makeSequence(
            backPressureStrategy: .init(lowWatermark: 2, highWatermark: 8), finishOnDeinit: true,
            delegate: BodyDemand(eventLoop: eventLoop, wanted: wanted))
        let source = BodySource(made.source)
        let incoming = IncomingBody(
            made.sequence, end: source.end, on: eventLoop, began: began, fail: fail, drop: drop)
        return (RequestBody(incoming), source)
    }

    /// Passes a piece to the reader; returns false if the reader has enough for now, or has left.
    func yield(_ chunk: ByteBuffer) -> Bool { source.yield(chunk) == .produceMore }

    /// Ends the body, with an error if it is incomplete.
    func finish(_ fault: BodyFault?) {
        if fault == .malformed { end.breaks() }
        if let fault { source.finish(fault) } else { source.finish() }
    }
}
