package import NIOCore
import Synchronization

/// A request's body as its reader sees it.
///
/// It can be read once: a second reader finds it empty, where the sequence beneath would end the process.
package struct RequestBody: AsyncSequence, Sendable {
    package typealias Element = ByteBuffer
    typealias Base = NIOThrowingAsyncSequenceProducer<
        ByteBuffer, any Error, NIOAsyncSequenceProducerBackPressureStrategies.HighLowWatermark, BodyDemand
    >

    /// Gives the sequence away once.
    private final class Once: Sendable {
        private let base: Mutex<Base?>

        init(_ base: Base?) { self.base = Mutex(base) }

        func take() -> Base? {
            base.withLock { base in
                defer { base = nil }
                return base
            }
        }
    }

    private let base: Once?
    /// Nil rather than an empty buffer: all empty ones count their references in one place, which all event loops write.
    private let whole: ByteBuffer?
    private let eventLoop: (any EventLoop)?
    private let end: BodyEnd
    private let began: @Sendable () -> Void
    private let fail: @Sendable (BodyFault) -> Void
    private let drop: @Sendable () -> Void

    /// Creates a body that is there already.
    package init(buffer: ByteBuffer? = nil) {
        base = nil
        whole = buffer.flatMap { $0.readableBytes > 0 ? $0 : nil }
        eventLoop = nil
        end = BodyEnd()
        began = {}
        fail = { _ in }
        drop = {}
    }

    /// Creates a body that is still coming in; `began` is called when it is read, `fail` ends it by an error, and
    /// `drop` throws it away.
    init(
        _ base: Base, end: BodyEnd, on eventLoop: any EventLoop, began: @escaping @Sendable () -> Void,
        fail: @escaping @Sendable (BodyFault) -> Void, drop: @escaping @Sendable () -> Void
    ) {
        self.base = Once(base)
        whole = nil
        self.eventLoop = eventLoop
        self.end = end
        self.began = began
        self.fail = fail
        self.drop = drop
    }

    /// Whether it was read to its end: only then another request can follow on its connection.
    package var isFinished: Bool { end.isReached }

    /// Ends the body by an error, if it has not ended: its reader waits no longer.
    package func abandon(_ fault: BodyFault) { fail(fault) }

    /// Has the connection read some of the body, throw it away, and close behind the answer (RFC 9112 section 9.6).
    ///
    /// Throws `malformed` if the bytes that came with the head break the framing (SEC-101).
    package func leaveUnread() async throws(BodyFault) {
        drop()
        // The connection takes the rest of its input apart before this goes on, on the same event loop.
        await Task.yield()
        if end.isMalformed { throw .malformed }
    }

    package func makeAsyncIterator() -> AsyncIterator {
        guard let base else { return AsyncIterator(base: nil, end: end, whole: whole) }
        began()
        return AsyncIterator(base: base.take()?.makeAsyncIterator(), end: end, whole: nil)
    }

    /// Returns the whole body; throws `BodyFault` for one that is too large or that takes too long.
    ///
    /// Such a body leaves the connection unusable; the connection sees to that itself.
    package func collect(upTo maximum: Int, within deadline: Duration) async throws(BodyFault) -> [UInt8] {
        let timer = eventLoop?.scheduleTask(in: .nanoseconds(deadline.nanoseconds)) { fail(.timedOut) }
        defer { timer?.cancel() }
        var bytes: [UInt8] = []
        do {
            for try await chunk in self {
                guard bytes.count + chunk.readableBytes <= maximum else { throw BodyFault.tooLarge }
                bytes.append(contentsOf: chunk.readableBytesView)
            }
        } catch let fault as BodyFault {
            throw fault
        } catch {
            throw .incomplete
        }
        return bytes
    }

    /// Reads the body piece by piece.
    package struct AsyncIterator: AsyncIteratorProtocol {
        private let base: Base.AsyncIterator?
        private let end: BodyEnd
        private var whole: ByteBuffer?

        init(base: Base.AsyncIterator?, end: BodyEnd, whole: ByteBuffer?) {
            self.base = base
            self.end = end
            self.whole = whole
        }

        @concurrent package mutating func next() async throws -> ByteBuffer? {
            let chunk: ByteBuffer?
            if let base {
                chunk = try await base.next()
            } else {
                chunk = whole
                whole = nil
            }
            if chunk == nil { end.reach() }
            return chunk
        }
    }
}

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
    /// comes, and `fail` when it is given up. `drop` throws the body away.
    static func make(
        on eventLoop: any EventLoop, wanted: @escaping @Sendable () -> Void, began: @escaping @Sendable () -> Void,
        fail: @escaping @Sendable (BodyFault) -> Void, drop: @escaping @Sendable () -> Void
    ) -> (RequestBody, BodySource) {
        let made = RequestBody.Base.makeSequence(
            backPressureStrategy: .init(lowWatermark: 2, highWatermark: 8), finishOnDeinit: true,
            delegate: BodyDemand(eventLoop: eventLoop, wanted: wanted))
        let source = BodySource(made.source)
        return (
            RequestBody(made.sequence, end: source.end, on: eventLoop, began: began, fail: fail, drop: drop), source
        )
    }

    /// Gives a piece on; false when that is enough for now, or when nobody reads the body any more.
    func yield(_ chunk: ByteBuffer) -> Bool { source.yield(chunk) == .produceMore }

    /// Ends the body, by an error when it is not whole.
    func finish(_ fault: BodyFault?) {
        if fault == .malformed { end.breaks() }
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

/// The end of a request's body: whether it was read up to there, and whether it broke off before.
final class BodyEnd: Sendable {
    private let reached = Atomic<Bool>(false)
    private let broken = Atomic<Bool>(false)

    /// Whether the framing broke off.
    var isMalformed: Bool { broken.load(ordering: .relaxed) }

    func breaks() { broken.store(true, ordering: .relaxed) }

    var isReached: Bool { reached.load(ordering: .relaxed) }

    func reach() { reached.store(true, ordering: .relaxed) }
}

/// The reason for which a request's body ends before its end.
package enum BodyFault: Error, Sendable, Equatable {
    /// It is not well-formed HTTP/1.1.
    case malformed
    /// The client ended the connection, or the request was answered before.
    case incomplete
    /// It came too slowly.
    case timedOut
    /// It has more bytes than its reader takes.
    case tooLarge
    /// The client's address holds as much of our memory as it may.
    case overLimit
}
