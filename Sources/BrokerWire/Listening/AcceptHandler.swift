import NIOCore
import Synchronization

/// Stops accepting at the limit on connections, and for a moment after a failure, for example if no descriptor is left.
///
/// Without the pause, a listening socket that stays readable would keep its event loop spinning.
final class AcceptHandler: ChannelDuplexHandler {
    typealias InboundIn = any Channel
    typealias InboundOut = any Channel
    typealias OutboundIn = Never

    /// The length of the pause after accepting failed.
    private static let pause = TimeAmount.milliseconds(100)

    private let cap: ConnectionCap?
    private var context: ChannelHandlerContext?
    private var isPaused = false
    private var isReadHeld = false

    init(cap: ConnectionCap?) { self.cap = cap }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if let cap {
            cap.opened()
            unwrapInboundIn(data).closeFuture.whenComplete { _ in cap.closed() }
        }
        context.fireChannelRead(data)
    }

    func read(context: ChannelHandlerContext) {
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        guard !isPaused,
            cap?.admits(orElse: { [eventLoop = context.eventLoop] in
                eventLoop.execute { bound.value.resume() }
            }) ?? true
        else {
            isReadHeld = true
            return
        }
        context.read()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        isPaused = true
        context.eventLoop.assumeIsolated().scheduleTask(in: Self.pause) {
            self.isPaused = false
            self.resume()
        }
        context.fireErrorCaught(error)
    }

    private func resume() {
        guard isReadHeld, !isPaused else { return }
        isReadHeld = false
        // The handler's method `read` checks the cap again.
        context?.channel.read()
    }
}

@available(*, unavailable)
extension AcceptHandler: Sendable {}

/// A limit on the open connections of all listeners that share it.
package final class ConnectionCap: Sendable {
    private struct State {
        var open = 0
        var waiting: [@Sendable () -> Void] = []
    }

    /// The highest number of open connections.
    package let maximum: Int
    private let isFull: @Sendable () -> Void
    private let state = Mutex(State())

    /// Creates a cap.
    ///
    /// `isFull` is called each time that a listener has to stop accepting.
    package init(maximum: Int, isFull: @escaping @Sendable () -> Void = {}) {
        self.maximum = max(maximum, 1)
        self.isFull = isFull
    }

    /// The number of open connections.
    package var count: Int { state.withLock { $0.open } }

    /// Counts an accepted connection.
    func opened() { state.withLock { $0.open += 1 } }

    /// Removes a closed connection from the count, and lets waiting listeners accept again.
    func closed() {
        let waiting = state.withLock { state -> [@Sendable () -> Void] in
            state.open -= 1
            guard state.open < maximum else { return [] }
            defer { state.waiting = [] }
            return state.waiting
        }
        for resume in waiting { resume() }
    }

    /// Returns whether another connection may be accepted.
    ///
    /// If not, `resume` is called when a connection has closed.
    func admits(orElse resume: @escaping @Sendable () -> Void) -> Bool {
        let isAdmitted = state.withLock { state in
            guard state.open >= maximum else { return true }
            state.waiting.append(resume)
            return false
        }
        if !isAdmitted { isFull() }
        return isAdmitted
    }
}
