import NIOCore
import NIOHTTP1

/// Writes requests to upstreams as HTTP/1.1 has them (RFC 9112).
///
/// Target and field values are checked where they are made, so that none can end its line.
enum RequestEncoder {
    /// Up to this size, in bytes, a body is copied behind its head: a second write costs more.
    private static let copied = 4096
    private static let room = 1024

    /// Returns a request's head, and behind it a whole body that is small; `rest` is a whole body that is not.
    static func begin(_ request: UpstreamRequest) -> (bytes: ByteBuffer, rest: ByteBuffer?) {
        var bytes = ByteBufferAllocator().buffer(capacity: room)
        bytes.writeString(request.head.method.rawValue)
        bytes.writeStaticString(" ")
        bytes.writeString(request.head.uri)
        bytes.writeStaticString(" HTTP/1.1\r\n")
        for (name, value) in request.head.headers { bytes.writeField(name, value) }
        bytes.writeStaticString("\r\n")
        guard case .whole(var whole) = request.body, whole.readableBytes > 0 else { return (bytes, nil) }
        guard whole.readableBytes <= copied else { return (bytes, whole) }
        bytes.writeBuffer(&whole)
        return (bytes, nil)
    }
}
