import Broker
package import NIOCore

/// A streamed request body of any kind, behind one type.
package struct RelayBodyStream: Sendable {
    let makeNext: @Sendable () -> () async throws -> ByteBuffer?
    /// The most bytes it may come to.
    private(set) var limit = Int.max

    /// Wraps a sequence; it is iterated at most once.
    package init<Base: AsyncSequence & Sendable>(_ base: Base) where Base.Element == ByteBuffer {
        makeNext = {
            var iterator = base.makeAsyncIterator()
            return { try await iterator.next(isolation: #isolation) }
        }
    }

    /// Returns the same stream, which ends with `too_large` beyond `limit` bytes.
    func limited(to limit: Int) -> RelayBodyStream {
        var copy = self
        copy.limit = limit
        return copy
    }

    /// Reads a small body whole; one longer than its announced `length` is refused.
    func collect(_ length: Int) async throws(BrokerProblem) -> ByteBuffer {
        let next = makeNext()
        var whole = ByteBuffer()
        do {
            while var chunk = try await next() {
                guard chunk.readableBytes <= length - whole.readableBytes else { throw BrokerProblem(.tooLarge) }
                whole.writeBuffer(&chunk)
            }
        } catch let problem as BrokerProblem {
            throw problem
        } catch {
            throw BrokerProblem(.invalidRequest, detail: "The request's body broke off.")
        }
        return whole
    }
}
