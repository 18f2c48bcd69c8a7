import NIOCore

/// The buffer before the HTTP/1 decoder, which gives the decoder only as much as the connection accepts.
///
/// The decoder immediately turns all input that it gets into parts. Therefore the buffer gives it one head at a time, in slices
/// of at most a kilobyte. Chunked bodies bypass the decoder, because the decoder would make a part of every chunk. The decoder
/// receives only the end of such a body.
///
/// While the connection accepts no input, the buffer keeps the bytes of one read, and holds back the next read. Turning
/// `autoRead` off and on again would cost two system calls for every request that waits.
final class InboundBuffer: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundIn = Never

    /// The form of a body that is being received.
    enum BodyForm: Equatable {
        /// A body of known length, with the number of bytes that have not arrived.
        case length(Int)
        case chunked
    }

    /// The largest number of bytes of heads that the decoder receives in one call.
    private static let slice = 1024

    /// The last chunk of a body, which ends the body for the decoder.
    private static let lastChunk = ByteBuffer(staticString: "0\r\n")

    /// The connection that receives the decoded input; nil after the connection's end.
    private var connection: ServerConnectionHandler?
    private var context: ChannelHandlerContext?
    private var held = ByteBuffer()
    private var isReadHeld = false
    /// Whether the client has closed its sending side, and the decoder has yet to be notified.
    ///
    /// The notification waits for the buffered bytes, because the decoder stops when it is notified.
    private var isEndHeld = false
    private var isFeeding = false
    /// Whether the decoder is working on its input, so that it may produce further parts.
    private(set) var isDecoding = false
    private var emptyLine = EmptyLine()
    /// Whether the decoder's last input ended exactly at the end of a head.
    private var isBehindHead = false
    /// The decoder of the chunked body that is being received; nil for other bodies, and after the last chunk.
    private var chunks: ChunkedBody?
    private var isInTrailers = false

    init(_ connection: ServerConnectionHandler) { self.connection = connection }

    /// The number of bytes that wait in the buffer.
    var count: Int { held.readableBytes }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
        connection = nil
        held = ByteBuffer()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard let connection else { return }
        var buffer = unwrapInboundIn(data)
        let count = buffer.readableBytes
        guard !connection.discardsInput else { return connection.discarded(count) }
        if held.readableBytes == 0 { held = buffer } else { held.writeBuffer(&buffer) }
        guard connection.received(count) else { return discard() }
        feed()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        guard case .inputClosed = event as? ChannelEvent, held.readableBytes > 0, let connection else {
            return context.fireUserInboundEventTriggered(event)
        }
        isEndHeld = true
        connection.inputEnds()
    }

    func read(context: ChannelHandlerContext) {
        guard held.readableBytes == 0 else { return isReadHeld = true }
        context.read()
    }

    /// Continues after a pause of the connection: processes the bytes in the buffer first, and then reads new input.
    func resume() {
        feed()
        guard isReadHeld, held.readableBytes == 0, let context else { return }
        isReadHeld = false
        context.read()
    }

    /// Discards the bytes in the buffer.
    func discard() { held = ByteBuffer() }

    private func feed() {
        guard !isFeeding, context != nil else { return }
        isFeeding = true
        defer { isFeeding = false }
        while held.readableBytes > 0, let connection, connection.takesInput {
            isDecoding = true
            switch connection.openBody {
            case nil:
                (chunks, isInTrailers) = (nil, false)
                decodeLines()
            case .length(let left): decode(left > 0 ? min(left, held.readableBytes) : held.readableBytes)
            case .chunked: readChunks(connection)
            }
            isDecoding = false
            connection.drain()
        }
        guard isEndHeld, held.readableBytes == 0, let context else { return }
        isEndHeld = false
        context.fireUserInboundEventTriggered(ChannelEvent.inputClosed)
    }

    /// Gives the decoder the bytes of a head or of trailers, up to the empty line that ends them.
    private func decodeLines() {
        let most = min(held.readableBytes, Self.slice)
        let end = emptyLine.end(in: held, upTo: most)
        isBehindHead = end != nil
        decode(end ?? most)
    }

    private func decode(_ length: Int) {
        guard let context, let slice = held.readSlice(length: length) else { return }
        if held.readableBytes == 0 { held = ByteBuffer() }
        context.fireChannelRead(wrapInboundOut(slice))
    }

    /// Passes the next arrived piece of a chunked body to the connection.
    private func readChunks(_ connection: ServerConnectionHandler) {
        guard !isInTrailers else { return decodeLines() }
        // The decoder found an earlier end of the head than this buffer, and has already parsed bytes of the body. The framing
        // is therefore ambiguous.
        guard chunks != nil || isBehindHead else { return connection.breaksFraming() }
        var reader = chunks ?? ChunkedBody()
        let step = reader.next(&held)
        chunks = reader
        if held.readableBytes == 0 { held = ByteBuffer() }
        switch step {
        case .piece(let piece): connection.receive(piece)
        case .needsMore: break
        case .last:
            (chunks, isInTrailers) = (nil, true)
            emptyLine = EmptyLine(behindLine: true)
            context?.fireChannelRead(wrapInboundOut(Self.lastChunk))
        case .malformed: connection.breaksFraming()
        }
    }
}

@available(*, unavailable)
extension InboundBuffer: Sendable {}

/// Counts the unanswered bytes that one connection has received, and adds them to the account of the client's address.
///
/// Small requests need no lock. The first 4 KiB of a connection are left out, because the number of connections limits them.
/// Further bytes are added in steps of 4 KiB.
struct HeldBytes {
    private static let quantum = 4096

    private let account: PeerAccount?
    private var held = 0
    private var charged = 0

    init(account: PeerAccount?) { self.account = account }

    /// Adds received bytes; returns false if they would exceed the limit of the client's address or of one of its networks.
    mutating func add(_ bytes: Int) -> Bool {
        held += bytes
        guard let account, held > charged + Self.quantum else { return true }
        let wanted = (held - charged - 1) / Self.quantum * Self.quantum
        guard account.take(wanted) else { return false }
        charged += wanted
        return true
    }

    /// Reduces the count to at most `bytes`.
    ///
    /// The other bytes were answered, or belong to a session.
    mutating func keep(_ bytes: Int) {
        held = min(held, bytes)
        guard charged > 0, held <= charged else { return }
        let kept = held <= Self.quantum ? 0 : held / Self.quantum * Self.quantum
        guard kept < charged else { return }
        account?.give(charged - kept)
        charged = kept
    }
}
