import HTTPTypes
import NIOCore

/// Writes a streamed answer's body to its connection, as fast as the client reads it.
struct ConnectionWriter: BodyWriter {
    let connection: NIOLoopBound<ServerConnectionHandler>

    func write(_ buffer: ByteBuffer) async throws { try await connection.value.write(buffer) }

    func finish(_ trailers: HTTPFields?) async throws { connection.value.end(trailers) }
}
