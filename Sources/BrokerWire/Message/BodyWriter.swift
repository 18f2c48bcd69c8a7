package import HTTPTypes
package import NIOCore

/// Where a streamed answer's body goes.
package protocol BodyWriter: Sendable {
    /// Writes a piece and waits until there is room for the next; throws when the client is gone.
    func write(_ buffer: ByteBuffer) async throws

    /// Ends the body.
    func finish(_ trailers: HTTPFields?) async throws
}
