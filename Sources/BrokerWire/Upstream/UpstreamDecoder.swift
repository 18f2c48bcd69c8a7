import NIOCore
import NIOHTTP1

/// The HTTP/1 decoder of a connection, which is reset for each call.
///
/// NIO's decoder silently accepts the beginning of an answer that was not requested, and would attribute the rest to the next
/// call. Therefore the connection is notified of all bytes before they are decoded, and the decoder is reset when a call begins
/// (SEC-79).
///
/// NIO's decoder receives one head at a time, and only the end of a chunked body. Otherwise NIO's decoder would make a part of
/// every chunk, and the upstream chooses the number of chunks.
struct UpstreamDecoder: ByteToMessageDecoder {
    typealias InboundOut = HTTPClientResponsePart

    /// The part of an answer that contains the next bytes.
    enum Part { case head, chunks, other }

    /// The last chunk of a body, which ends the body for NIO's decoder.
    private static let lastChunk = ByteBuffer(staticString: "0\r\n")

    private let connection: UpstreamConnectionHandler
    private var base = Self.make()
    private var emptyLine = EmptyLine()
    private var chunks: ChunkedBody?
    private var isInTrailers = false
    /// The number of bytes at the front of the buffer that NIO's decoder has seen but not consumed.
    private var seen = 0

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

    /// Notifies the connection of bytes, and resets the decoder at a call's first bytes; returns false if the connection is
    /// closed.
    private mutating func begin(_ context: ChannelHandlerContext) -> Bool {
        guard connection.received() else { return false }
        if let head = connection.takeBegun() {
            base.decoderRemoved(context: context)
            base = Self.make()
            base.decoderAdded(context: context)
            // The decoder needs the request's method, because an answer to HEAD has no body.
            base.write(data: .head(head))
            (emptyLine, chunks, isInTrailers, seen) = (EmptyLine(), nil, false, 0)
        }
        return true
    }

    mutating func decode(context: ChannelHandlerContext, buffer: inout ByteBuffer) throws -> DecodingState {
        guard begin(context) else {
            buffer.clear()
            return .needMoreData
        }
        try read(context, &buffer)
        return .needMoreData
    }

    mutating func decodeLast(
        context: ChannelHandlerContext, buffer: inout ByteBuffer, seenEOF: Bool
    ) throws -> DecodingState {
        if buffer.readableBytes > 0, !begin(context) { buffer.clear() }
        try read(context, &buffer)
        return try base.decodeLast(context: context, buffer: &buffer, seenEOF: seenEOF)
    }

    private mutating func read(_ context: ChannelHandlerContext, _ buffer: inout ByteBuffer) throws {
        while buffer.readableBytes > seen {
            switch connection.part {
            case .head: try readLines(context, &buffer)
            case .chunks where isInTrailers: try readLines(context, &buffer)
            case .chunks: try readChunks(context, &buffer)
            case .other:
                seen = 0
                _ = try base.decode(context: context, buffer: &buffer)
                seen = buffer.readableBytes
            }
        }
    }

    /// Gives NIO's decoder the bytes of a head or of trailers, up to the empty line that ends them.
    private mutating func readLines(_ context: ChannelHandlerContext, _ buffer: inout ByteBuffer) throws {
        var rest = buffer
        rest.moveReaderIndex(forwardBy: seen)
        let new = emptyLine.end(in: rest, upTo: rest.readableBytes) ?? rest.readableBytes
        guard var lines = buffer.getSlice(at: buffer.readerIndex, length: seen + new) else { return }
        let given = lines.readableBytes
        _ = try base.decode(context: context, buffer: &lines)
        buffer.moveReaderIndex(forwardBy: given - lines.readableBytes)
        seen = lines.readableBytes
    }

    private mutating func readChunks(_ context: ChannelHandlerContext, _ buffer: inout ByteBuffer) throws {
        // The head has ended, so the decoder has consumed all bytes up to here.
        guard seen == 0 else { throw HTTPParserError.invalidInternalState }
        var reader = chunks ?? ChunkedBody()
        let step = reader.next(&buffer)
        chunks = reader
        switch step {
        case .piece(let piece): context.fireChannelRead(wrapInboundOut(.body(piece)))
        case .needsMore: break
        case .last:
            (emptyLine, isInTrailers) = (EmptyLine(behindLine: true), true)
            var last = Self.lastChunk
            _ = try base.decode(context: context, buffer: &last)
        case .malformed: throw HTTPParserError.invalidChunkSize
        }
    }
}
