import HTTPTypes
import Hummingbird
import NIOCore

/// Writes a streamed answer's body to its connection, as fast as the client reads it.
struct ConnectionWriter: ResponseBodyWriter {
    let loop: NIOLoopBound<RequestLoop>

    func write(_ buffer: ByteBuffer) async throws { try await loop.value.write(buffer) }

    consuming func finish(_ trailingHeaders: HTTPFields?) async throws { loop.value.end(trailingHeaders) }
}
