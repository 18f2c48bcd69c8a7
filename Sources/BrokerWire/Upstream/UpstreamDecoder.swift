import NIOCore
import NIOHTTP1

/// The HTTP/1 decoder of a connection, which begins anew with every call.
///
/// The decoder beneath takes the beginning of an answer that nobody asked for without a word, and would give the rest to
/// the next call. So the connection hears of all bytes before they are decoded, and what the decoder keeps is forgotten
/// when a call begins (SEC-79).
struct UpstreamDecoder: WriteObservingByteToMessageDecoder {
    typealias InboundOut = HTTPClientResponsePart
    typealias OutboundIn = HTTPClientRequestPart

    private let connection: UpstreamConnectionHandler
    private var base = Self.make()
    private var context: ChannelHandlerContext?

    init(_ connection: UpstreamConnectionHandler) { self.connection = connection }

    private static func make() -> HTTPResponseDecoder {
        HTTPResponseDecoder(leftOverBytesStrategy: .dropBytes, informationalResponseStrategy: .forward)
    }

    mutating func decoderAdded(context: ChannelHandlerContext) {
        self.context = context
        base.decoderAdded(context: context)
    }

    mutating func decoderRemoved(context: ChannelHandlerContext) {
        base.decoderRemoved(context: context)
        self.context = nil
    }

    mutating func write(data: HTTPClientRequestPart) {
        if case .head = data, let context {
            base.decoderRemoved(context: context)
            base = Self.make()
            base.decoderAdded(context: context)
        }
        base.write(data: data)
    }

    mutating func decode(context: ChannelHandlerContext, buffer: inout ByteBuffer) throws -> DecodingState {
        guard connection.received() else {
            buffer.clear()
            return .needMoreData
        }
        return try base.decode(context: context, buffer: &buffer)
    }

    mutating func decodeLast(
        context: ChannelHandlerContext, buffer: inout ByteBuffer, seenEOF: Bool
    ) throws -> DecodingState {
        if buffer.readableBytes > 0, !connection.received() { buffer.clear() }
        return try base.decodeLast(context: context, buffer: &buffer, seenEOF: seenEOF)
    }
}
