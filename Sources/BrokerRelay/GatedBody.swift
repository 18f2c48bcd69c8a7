import AsyncHTTPClient
import Broker
import NIOCore

/// The app's request body as the HTTP client reads it: through the gate, and not beyond the limit (SEC-81).
struct GatedBody: AsyncSequence, Sendable {
    typealias Element = ByteBuffer

    let base: RelayBodyStream
    let gate: BodyGate

    struct AsyncIterator: AsyncIteratorProtocol {
        let next: () async throws -> ByteBuffer?
        let gate: BodyGate
        var left: Int

        mutating func next() async throws -> ByteBuffer? {
            try gate.enter()
            var isLast = true
            defer { gate.leave(finished: isLast) }
            guard let chunk = try await next() else { return nil }
            left -= chunk.readableBytes
            guard left >= 0 else { throw BrokerProblem(.tooLarge) }
            isLast = false
            return chunk
        }
    }

    /// Sends the whole body, each piece when the upstream has taken the one before.
    func send(to writer: HTTPClient.Body.StreamWriter, on eventLoop: any EventLoop) -> EventLoopFuture<Void> {
        let sent = eventLoop.makePromise(of: Void.self)
        guard gate.begin(sent) else { return sent.futureResult }
        Task {
            do {
                for try await piece in self { try await gate.wait(for: writer.write(.byteBuffer(piece))) }
                gate.finish()
            } catch { gate.stop(error) }
        }
        return sent.futureResult
    }

    func makeAsyncIterator() -> AsyncIterator { AsyncIterator(next: base.makeNext(), gate: gate, left: base.limit) }
}
