import NIOCore

/// Stands in front of the HTTP/1 decoder and hands it no more than its connection takes.
///
/// The decoder makes parts of everything it is given, so it is given one head at a time, and at most a kilobyte of it. Chunked
/// bodies do not go through it: it would make a part of every chunk. It only sees where such a body ends. While the connection
/// takes nothing, one read is kept and no more: stopping to listen at once, and listening again a moment later, would be two
/// system calls for every request that waits for something.
final class InboundBuffer: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundIn = Never

    /// The form of a body that is coming in.
    enum BodyForm: Equatable {
        /// So many bytes are still to come.
        case length(Int)
        case chunked
    }

    /// The most bytes that the decoder is given at a time between bodies.
    private static let slice = 1024

    /// The last chunk of a body, as the decoder hears of it.
    private static let lastChunk = ByteBuffer(staticString: "0\r\n")

    /// The connection whose input it is; let go when that ends.
    private var connection: ServerConnectionHandler?
    private var context: ChannelHandlerContext?
    private var held = ByteBuffer()
    private var isReadHeld = false
    /// Whether the client has ended its side, and the decoder has not heard of it: it decodes nothing after that.
    private var isEndHeld = false
    private var isFeeding = false
    /// Whether the decoder is at a slice: there may be more in it than it has made parts of.
    private(set) var isDecoding = false
    private var emptyLine = EmptyLine()
    /// Whether the decoder was given a head to its end, and nothing behind it.
    private var isBehindHead = false
    /// The coding of the body that is coming in; nil for another body, and once its last chunk has come.
    private var chunks: ChunkedBody?
    private var isInTrailers = false

    init(_ connection: ServerConnectionHandler) { self.connection = connection }

    /// The number of bytes that wait.
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

    /// Goes on where the connection took nothing: with what waits, then with reading.
    func resume() {
        feed()
        guard isReadHeld, held.readableBytes == 0, let context else { return }
        isReadHeld = false
        context.read()
    }

    /// Throws away what waits.
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

    /// Gives the decoder bytes of a head or of trailers, and nothing behind their end.
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

    /// Reads on in a chunked body.
    private func readChunks(_ connection: ServerConnectionHandler) {
        guard !isInTrailers else { return decodeLines() }
        // The decoder took another end of the head than we did, and has made something of what follows.
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

/// The bytes that one connection has received and not yet answered, charged to its address's account.
///
/// Small requests cost no lock: the first 4 KiB of a connection are not charged, because the number of connections
/// bounds them, and beyond that bytes are taken by the 4 KiB.
struct HeldBytes {
    private static let quantum = 4096

    private let account: PeerAccount?
    private var held = 0
    private var charged = 0

    init(account: PeerAccount?) { self.account = account }

    /// Takes note of bytes that came in; false when the address holds as many as it may.
    mutating func add(_ bytes: Int) -> Bool {
        held += bytes
        guard let account, held > charged + Self.quantum else { return true }
        let wanted = (held - charged - 1) / Self.quantum * Self.quantum
        guard account.take(wanted) else { return false }
        charged += wanted
        return true
    }

    /// Keeps no more than `bytes` of what came in: the rest is answered, or somebody's.
    mutating func keep(_ bytes: Int) {
        held = min(held, bytes)
        guard charged > 0, held <= charged else { return }
        let kept = held <= Self.quantum ? 0 : held / Self.quantum * Self.quantum
        guard kept < charged else { return }
        account?.give(charged - kept)
        charged = kept
    }
}
