import NIOCore

/// Stands in front of the HTTP/1 decoder and hands it no more than its connection takes.
///
/// The decoder makes parts of everything it is given: a kilobyte of pipelined requests at a time keeps what waits for
/// its turn small. While the connection takes nothing, one read is kept and no more: stopping to listen at once, and
/// listening again a moment later, would be two system calls for every request that waits for something.
final class InboundBuffer: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundIn = Never

    /// The bytes that the decoder is given at a time between bodies.
    private static let slice = 1024

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
        guard let connection, !connection.discardsInput else { return }
        var buffer = unwrapInboundIn(data)
        let count = buffer.readableBytes
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
        guard !isFeeding, let context else { return }
        isFeeding = true
        defer { isFeeding = false }
        while held.readableBytes > 0, let connection, connection.takesInput {
            let length = connection.isBodyOpen ? held.readableBytes : min(held.readableBytes, Self.slice)
            guard let slice = held.readSlice(length: length) else { break }
            if held.readableBytes == 0 { held = ByteBuffer() }
            isDecoding = true
            context.fireChannelRead(wrapInboundOut(slice))
            isDecoding = false
            connection.drain()
        }
        guard isEndHeld, held.readableBytes == 0 else { return }
        isEndHeld = false
        context.fireUserInboundEventTriggered(ChannelEvent.inputClosed)
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
