import NIOCore
import NIOHTTP1

/// The HTTP/1 decoder of a connection, which begins anew with every call.
///
/// The decoder beneath takes the beginning of an answer that nobody asked for without a word, and would give the rest to
/// the next call. So the connection hears of all bytes before they are decoded, and what the decoder keeps is forgotten
/// when a call begins (SEC-79).
struct UpstreamDecoder: ByteToMessageDecoder {
    typealias InboundOut = HTTPClientResponsePart

    private let connection: UpstreamConnectionHandler
    private var base = Self.make()

    init(_ connection: UpstreamConnectionHandler) { self.connection = connection }

    private static func make() -> HTTPResponseDecoder {
        HTTPResponseDecoder(
            leftOverBytesStrategy: .dropBytes, informationalResponseStrategy: .forward,
            limitConfiguration: AnswerLimits.decoder)
    }

    mutating func decoderAdded(context: ChannelHandlerContext) {
        base.decoderAdded(context: context)
    }

    mutating func decoderRemoved(context: ChannelHandlerContext) {
        base.decoderRemoved(context: context)
    }

    /// Takes note of bytes, and begins anew with the first ones of a call; false when nobody takes them.
    private mutating func begin(_ context: ChannelHandlerContext) -> Bool {
        guard connection.received() else { return false }
        if let head = connection.takeBegun() {
            base.decoderRemoved(context: context)
            base = Self.make()
            base.decoderAdded(context: context)
            // It has to know of HEAD, whose answer has no body.
            base.write(data: .head(head))
        }
        return true
    }

    mutating func decode(context: ChannelHandlerContext, buffer: inout ByteBuffer) throws -> DecodingState {
        guard begin(context) else {
            buffer.clear()
            return .needMoreData
        }
        return try base.decode(context: context, buffer: &buffer)
    }

    mutating func decodeLast(
        context: ChannelHandlerContext, buffer: inout ByteBuffer, seenEOF: Bool
    ) throws -> DecodingState {
        if buffer.readableBytes > 0, !begin(context) { buffer.clear() }
        return try base.decodeLast(context: context, buffer: &buffer, seenEOF: seenEOF)
    }
}

/// The bounds on an answer before its body: what a hostile server sends beyond is no answer.
///
/// NIO's own bounds are 2 MiB a head and 80 KiB a field, for each call under way.
enum AnswerLimits {
    /// Bytes of the names and values of all fields, trailers among them.
    static let head = 64 * 1024

    /// The bounds for a decoder.
    static var decoder: NIOHTTPDecoderLimitConfiguration {
        var limits = NIOHTTPDecoderLimitConfiguration()
        limits.maxHeaderListSize = head
        limits.maxHeaderFieldSize = 16 * 1024
        limits.maxHeaderFieldCount = 128
        return limits
    }
}
