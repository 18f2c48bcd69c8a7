import NIOCore
import Synchronization

/// Knows whether a request's body was asked for: AsyncHTTPClient does so only on a connection that stands, TLS
/// included.
///
/// Until then a code or refresh token in it surely was not sent.
final class SentMark: Sendable {
    private let flag = Atomic(false)

    var isSet: Bool { flag.load(ordering: .acquiring) }

    func set() { flag.store(true, ordering: .releasing) }

    /// A body of one buffer that sets the mark when it is taken.
    struct Body: AsyncSequence, Sendable {
        typealias Element = ByteBuffer

        let buffer: ByteBuffer
        let mark: SentMark

        struct AsyncIterator: AsyncIteratorProtocol {
            var buffer: ByteBuffer?
            let mark: SentMark

            mutating func next() async throws -> ByteBuffer? {
                defer { buffer = nil }
                if buffer != nil { mark.set() }
                return buffer
            }
        }

        func makeAsyncIterator() -> AsyncIterator { AsyncIterator(buffer: buffer, mark: mark) }
    }
}
