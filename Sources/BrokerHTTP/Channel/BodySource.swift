import NIOCore

/// The connection's end of a request's body: gives it on piece by piece, and hears when more is wanted.
final class BodySource {
    private let source: RequestStream.Base.Source

    private init(_ source: RequestStream.Base.Source) { self.source = source }

    /// Returns a body and its source.
    ///
    /// `wanted` is called on the event loop when the body is read and little is left.
    static func make(on eventLoop: any EventLoop, wanted: @escaping @Sendable () -> Void)
        -> (RequestStream, BodySource)
    {
        let made = RequestStream.Base.makeSequence(
            backPressureStrategy: .init(lowWatermark: 2, highWatermark: 8), finishOnDeinit: true,
            delegate: BodyDemand(eventLoop: eventLoop, wanted: wanted))
        return (RequestStream(made.sequence), BodySource(made.source))
    }

    /// Gives a piece on; false when that is enough for now, or when nobody reads the body any more.
    func yield(_ chunk: ByteBuffer) -> Bool { source.yield(chunk) == .produceMore }

    /// Ends the body, by an error when it is not whole.
    func finish(_ error: (any Error)?) {
        if let error { source.finish(error) } else { source.finish() }
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
