import NIOCore
import Synchronization

/// A request's body as its reader sees it.
///
/// It can be read once: a second reader finds it empty, where the sequence beneath would end the process.
struct RequestStream: AsyncSequence, Sendable {
    typealias Element = ByteBuffer
    typealias Base = NIOThrowingAsyncSequenceProducer<
        ByteBuffer, any Error, NIOAsyncSequenceProducerBackPressureStrategies.HighLowWatermark, BodyDemand
    >

    private let base: Once

    init(_ base: Base) { self.base = Once(base) }

    func makeAsyncIterator() -> AsyncIterator { AsyncIterator(base: base.take()?.makeAsyncIterator()) }

    struct AsyncIterator: AsyncIteratorProtocol {
        let base: Base.AsyncIterator?

        @concurrent mutating func next() async throws -> ByteBuffer? { try await base?.next() }
    }

    /// Gives the sequence away once.
    private final class Once: Sendable {
        private let base: Mutex<Base?>

        init(_ base: Base) { self.base = Mutex(base) }

        func take() -> Base? {
            base.withLock { base in
                defer { base = nil }
                return base
            }
        }
    }
}
