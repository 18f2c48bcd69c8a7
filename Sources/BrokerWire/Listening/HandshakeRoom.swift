import NIOCore
import NIOSSL
import NIOTLS
import Synchronization

/// The TLS handshakes in progress, up to a limit.
///
/// Above the limit, the oldest handshake is ended. An honest handshake takes only a moment, so the oldest one is probably
/// abandoned.
package final class HandshakeRoom: Sendable {
    private struct State {
        var next = 0
        /// For each handshake, the closure that ends it.
        ///
        /// The keys are numbers, which grow in the order of the beginnings.
        var leaving: [Int: @Sendable () -> Void] = [:]
        var oldest = 0
    }

    private let maximum: Int
    private let state = Mutex(State())

    /// Creates the limit on handshakes in progress.
    package init(maximum: Int = 1024) { self.maximum = max(maximum, 1) }

    /// The number of handshakes in progress.
    package var count: Int { state.withLock { $0.leaving.count } }

    /// Counts a new handshake, and returns its number for `leave(_:)`.
    ///
    /// `leave` ends this handshake. It is called if this handshake is the oldest when a new one would exceed the limit.
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

    /// Removes a handshake that has succeeded, failed or been ended.
    func leave(_ place: Int) { state.withLock { _ = $0.leaving.removeValue(forKey: place) } }
}

/// The handler behind TLS that ends handshakes which are slow or exceed the limit.
///
/// This handler also translates TLS's events about a connection's end into the events of plain sockets.
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
        // Ignore that the client closed its side without TLS's close_notify, because HTTP's own framing shows whether a request
        // was complete.
        if let error = error as? NIOSSLError, case .uncleanShutdown = error { return }
        context.fireErrorCaught(error)
    }

    func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        guard mode == .output, place == nil else { return context.close(mode: mode, promise: promise) }
        // If the client has sent close_notify, the TLS handler closes at once and drops unsent output. So flush first.
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
