import NIOCore
import NIOSSL
import NIOTLS
import Synchronization

/// The room for handshakes under way: where there are as many as may be, the one that began first makes room.
///
/// An honest handshake is done in a moment, so what is oldest is most likely nobody's.
package final class HandshakeRoom: Sendable {
    private struct State {
        var next = 0
        /// The closures that end each handshake, by the order of their beginning.
        var leaving: [Int: @Sendable () -> Void] = [:]
        var oldest = 0
    }

    private let maximum: Int
    private let state = Mutex(State())

    /// Creates a room for so many handshakes.
    package init(maximum: Int = 1024) { self.maximum = max(maximum, 1) }

    /// The number of handshakes that are under way.
    package var count: Int { state.withLock { $0.leaving.count } }

    /// Begins a handshake; `leave` ends it when another needs its place.
    func enter(_ leave: @escaping @Sendable () -> Void) -> Int {
        let (place, evicted) = state.withLock { state -> (Int, (@Sendable () -> Void)?) in
            var evicted: (@Sendable () -> Void)?
            if state.leaving.count >= maximum {
                while state.oldest < state.next, evicted == nil {
                    evicted = state.leaving.removeValue(forKey: state.oldest)
                    state.oldest += 1
                }
            }
            let place = state.next
            state.next += 1
            state.leaving[place] = leave
            return (place, evicted)
        }
        evicted?()
        return place
    }

    /// Ends a handshake, done or given up.
    func leave(_ place: Int) { state.withLock { _ = $0.leaving.removeValue(forKey: place) } }
}

/// Stands behind the TLS handler: ends a handshake that takes too long or whose place another needs, and turns what TLS
/// says of a connection's end into what sockets say.
final class HandshakeGuard: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let room: HandshakeRoom
    private var place: Int?
    private var timer: Scheduled<Void>?

    init(_ room: HandshakeRoom) { self.room = room }

    func handlerAdded(context: ChannelHandlerContext) {
        let channel = context.channel
        let end: @Sendable () -> Void = { channel.close(mode: .all, promise: nil) }
        place = room.enter(end)
        timer = context.eventLoop.assumeIsolated().scheduleTask(in: ServerTLS.patience) { end() }
    }

    func handlerRemoved(context: ChannelHandlerContext) { finish() }

    func channelInactive(context: ChannelHandlerContext) {
        finish()
        context.fireChannelInactive()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .handshakeCompleted = event as? TLSUserEvent { finish() }
        context.fireUserInboundEventTriggered(event)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // A client that ends its side without TLS's goodbye: HTTP's own framing says whether a request was whole.
        if let error = error as? NIOSSLError, case .uncleanShutdown = error { return }
        context.fireErrorCaught(error)
    }

    func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        guard mode == .output, place == nil else { return context.close(mode: mode, promise: promise) }
        // Where the client has said goodbye already, the TLS handler closes at once, with what was written unsent.
        context.writeAndFlush(wrapOutboundOut(context.channel.allocator.buffer(capacity: 0))).assumeIsolated()
            .whenComplete { _ in context.close(mode: .output, promise: promise) }
    }

    private func finish() {
        timer?.cancel()
        timer = nil
        if let place { room.leave(place) }
        place = nil
    }
}

@available(*, unavailable)
extension HandshakeGuard: Sendable {}
