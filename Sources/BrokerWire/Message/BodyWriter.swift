package import HTTPTypes
package import NIOCore

/// The receiver of a streamed answer's body.
package protocol BodyWriter: Sendable {
    /// Writes a piece and waits until the next piece may be written; throws if the client has left.
    func write(_ buffer: ByteBuffer) async throws

    /// Ends the body.
    func finish(_ trailers: HTTPFields?) async throws

    /// Ends the connection before the body is complete, so that the client does not treat the body as complete.
    ///
    /// Call `cut` from any thread, even while a piece waits to be sent. The effect is immediate. If the answer has ended, the
    /// call has no effect.
    func cut()
}
