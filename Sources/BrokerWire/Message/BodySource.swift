import NIOCore

/// The connection's end of a request's body: gives it on piece by piece, and hears when more is wanted.
final class BodySource {
    private let source: RequestBody.Base.Source
    private let end = BodyEnd()

    private init(_ source: RequestBody.Base.Source) { self.source = source }

    /// Whether the body was read to its end.
    var isRead: Bool { end.isReached }

    /// Returns a body and its source.
    ///
    /// `wanted` is called on the event loop when the body is read and little is left, `began` when its first reader
    /// comes, and `fail` when it is given up.
    static func make(
        on eventLoop: any EventLoop, wanted: @escaping @Sendable () -> Void, began: @escaping @Sendable () -> Void,
        fail: @escaping @Sendable (BodyFault) -> Void
    ) -> (RequestBody, BodySource) {
        let made = RequestBody.Base.makeSequence(
            backPressureStrategy: .init(lowWatermark: 2, highWatermark: 8), finishOnDeinit: true,
            delegate: BodyDemand(eventLoop: eventLoop, wanted: wanted))
        let source = BodySource(made.source)
        return (RequestBody(made.sequence, end: source.end, on: eventLoop, began: began, fail: fail), source)
    }

    /// Gives a piece on; false when that is enough for now, or when nobody reads the body any more.
    func yield(_ chunk: ByteBuffer) -> Bool { source.yield(chunk) == .produceMore }

    /// Ends the body, by an error when it is not whole.
    func finish(_ fault: BodyFault?) {
        if let fault { source.finish(fault) } else { source.finish() }
    }
}

/// Hears from the body's reader.
struct BodyDemand: NIOAsyncSequenceProducerDelegate {
    let eventLoop: any EventLoop
    let wanted: @Sendable () -> Void

    func produceMore() {
        if eventLoop.inEventLoop { wanted() } else { eventLoop.execute(wanted) }
    }

    /// Nobody reads the rest: it stays unread until the answer has ended.
    func didTerminate() {}
}
