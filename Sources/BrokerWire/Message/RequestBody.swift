package import NIOCore
import Synchronization

/// A request's body for its reader.
///
/// The body can be read once. A second reader sees an empty body, because NIO's sequence would stop the process if it were
/// iterated twice.
package struct RequestBody: AsyncSequence, Sendable {
    package typealias Element = ByteBuffer
    typealias Base = NIOThrowingAsyncSequenceProducer<
        ByteBuffer, any Error, NIOAsyncSequenceProducerBackPressureStrategies.HighLowWatermark, BodyDemand
    >

    /// The body that is still being received; nil for a complete one.
    private let incoming: IncomingBody?
    /// The complete body; nil if it is empty.
    ///
    /// All empty buffers share one storage object. If event loops copied empty buffers, all of them would write to the reference
    /// count of this object.
    private let whole: ByteBuffer?

    /// Creates a body that is already complete.
    package init(buffer: ByteBuffer? = nil) {
        incoming = nil
        whole = buffer.flatMap { $0.readableBytes > 0 ? $0 : nil }
    }

    /// Creates a body that is still being received.
    init(_ incoming: IncomingBody) {
        self.incoming = incoming
        whole = nil
    }

    /// Ends an unfinished body with an error, so that its reader stops waiting.
    package func abandon(_ fault: BodyFault) { incoming?.fail(fault) }

    /// Makes the connection read some of the body, discard it, and close after the answer (RFC 9112 section 9.6).
    ///
    /// Throws `malformed` if the bytes that came with the head break the framing (SEC-101).
    package func leaveUnread() async throws(BodyFault) {
        guard let incoming else { return }
        incoming.drop()
        // During this `yield`, the connection parses the rest of its input on the same event loop.
        await Task.yield()
        if incoming.end.isMalformed { throw .malformed }
    }

    package func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(base: incoming?.read(), end: incoming?.end, whole: whole)
    }

    /// Returns the whole body; throws `BodyFault` if it is too large, too slow, malformed or incomplete.
    ///
    /// After a `BodyFault`, the connection closes after the answer, because the rest of the body stays unread.
    package func collect(upTo maximum: Int, within deadline: Duration) async throws(BodyFault) -> [UInt8] {
        let timer = incoming.map { incoming in
            incoming.eventLoop.scheduleTask(in: .nanoseconds(deadline.nanoseconds)) { incoming.fail(.timedOut) }
        }
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
        fileprivate let base: Base.AsyncIterator?
        fileprivate let end: BodyEnd?
        fileprivate var whole: ByteBuffer?

        @concurrent package mutating func next() async throws -> ByteBuffer? {
            let chunk: ByteBuffer?
            if let base {
                chunk = try await base.next()
            } else {
                chunk = whole
                whole = nil
            }
            if chunk == nil { end?.reach() }
            return chunk
        }
    }
}

/// The reader's access to a body that is still being received.
///
/// This is a class, because each copy of a request also copies its body. Copying a reference is cheap. For an empty
/// body, the reference is nil.
final class IncomingBody: Sendable {
    let eventLoop: any EventLoop
    let end: BodyEnd
    private let base: Mutex<RequestBody.Base?>
    private let began: @Sendable () -> Void
    /// Ends the body with an error for its reader.
    let fail: @Sendable (BodyFault) -> Void
    /// Makes the connection discard the body.
    let drop: @Sendable () -> Void

    /// Creates the reader's access to a body.
    ///
    /// `began` is called at the first read, `fail` ends the body with an error, and `drop` discards the body.
    init(
        _ base: RequestBody.Base, end: BodyEnd, on eventLoop: any EventLoop, began: @escaping @Sendable () -> Void,
        fail: @escaping @Sendable (BodyFault) -> Void, drop: @escaping @Sendable () -> Void
    ) {
        self.base = Mutex(base)
        self.eventLoop = eventLoop
        self.end = end
        self.began = began
        self.fail = fail
        self.drop = drop
    }

    /// Returns the body's sequence; nil at the second call.
    func read() -> RequestBody.Base.AsyncIterator? {
        began()
        let base = base.withLock { base in
            defer { base = nil }
            return base
        }
        return base?.makeAsyncIterator()
    }
}

/// Receives the requests of the body's reader for more pieces.
struct BodyDemand: NIOAsyncSequenceProducerDelegate {
    let eventLoop: any EventLoop
    let wanted: @Sendable () -> Void

    func produceMore() {
        if eventLoop.inEventLoop { wanted() } else { eventLoop.execute(wanted) }
    }

    /// The reader has left.
    ///
    /// The connection needs no action here, because the rest of the body stays unread until the answer has ended.
    func didTerminate() {}
}

/// The end of a request's body: whether it was reached, and whether the framing broke before it.
final class BodyEnd: Sendable {
    private let reached = Atomic<Bool>(false)
    private let broken = Atomic<Bool>(false)

    /// Whether the framing broke.
    var isMalformed: Bool { broken.load(ordering: .relaxed) }

    func breaks() { broken.store(true, ordering: .relaxed) }

    var isReached: Bool { reached.load(ordering: .relaxed) }

    func reach() { reached.store(true, ordering: .relaxed) }
}
