import NIOCore
import NIOHTTP1

/// The HTTP/1 decoder of a connection, which begins anew with every call.
///
/// The decoder beneath takes the beginning of an answer that nobody asked for without a word, and would give the rest to
/// the next call. So the connection hears of all bytes before they are decoded, and what the decoder keeps is forgotten
/// when a call begins (SEC-79).
///
/// It is given one head at a time, and of a chunked body only the end: it would make a part of every chunk, and the upstream chooses
/// how many there are.
struct UpstreamDecoder: ByteToMessageDecoder {
    typealias InboundOut = HTTPClientResponsePart

    /// The part of an answer that its next bytes belong to.
    enum Part { case head, chunks, other }

    /// The last chunk of a body, as the decoder beneath hears of it.
    private static let lastChunk = ByteBuffer(staticString: "0\r\n")

    private let connection: UpstreamConnectionHandler
    private var base = Self.make()
    private var emptyLine = EmptyLine()
    private var chunks: ChunkedBody?
    private var isInTrailers = false
    /// The bytes at the front of the buffer that the decoder beneath has seen and not used up.
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

    /// Takes note of bytes, and begins anew with the first ones of a call; false when nobody takes them.
    private mutating func begin(_ context: ChannelHandlerContext) -> Bool {
        guard connection.received() else { return false }
        if let head = connection.takeBegun() {
            base.decoderRemoved(context: context)
            base = Self.make()
            base.decoderAdded(context: context)
            // It has to know of HEAD, whose answer has no body.
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

    /// Gives the decoder beneath bytes of a head or of trailers, and nothing behind their end.
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
        // The head has ended, and so everything up to here is used up.
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
