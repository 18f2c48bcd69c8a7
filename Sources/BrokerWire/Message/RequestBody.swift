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
    private let whole: ByteBuffer
    private let eventLoop: (any EventLoop)?
    private let end: BodyEnd
    private let began: @Sendable () -> Void
    private let fail: @Sendable (BodyFault) -> Void

    /// Creates a body that is there already.
    package init(buffer: ByteBuffer = ByteBuffer()) {
        base = nil
        whole = buffer
        eventLoop = nil
        end = BodyEnd()
        began = {}
        fail = { _ in }
    }

    /// Creates a body that is still coming in; `began` is called when it is read, `fail` ends it by an error.
    init(
        _ base: Base, end: BodyEnd, on eventLoop: any EventLoop, began: @escaping @Sendable () -> Void,
        fail: @escaping @Sendable (BodyFault) -> Void
    ) {
        self.base = Once(base)
        whole = ByteBuffer()
        self.eventLoop = eventLoop
        self.end = end
        self.began = began
        self.fail = fail
    }

    /// Whether it was read to its end: only then another request can follow on its connection.
    package var isFinished: Bool { end.isReached }

    /// Ends the body by an error, if it has not ended: its reader waits no longer.
    package func abandon(_ fault: BodyFault) { fail(fault) }

    package func makeAsyncIterator() -> AsyncIterator {
        guard let base else { return AsyncIterator(base: nil, end: end, whole: whole.readableBytes > 0 ? whole : nil) }
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
