import NIOCore
import Synchronization

/// Pauses accepting while there are as many connections as may be, and for a moment when the system has no descriptor
/// left: a listening socket that stays readable would keep its event loop spinning.
final class AcceptHandler: ChannelDuplexHandler {
    typealias InboundIn = any Channel
    typealias InboundOut = any Channel
    typealias OutboundIn = Never

    /// The time for which accepting pauses after it failed.
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
        // Through `read`, which looks at the cap again.
        context?.channel.read()
    }
}

@available(*, unavailable)
extension AcceptHandler: Sendable {}

/// A bound on the open connections of all listeners that share it.
package final class ConnectionCap: Sendable {
    private struct State {
        var open = 0
        var waiting: [@Sendable () -> Void] = []
    }

    /// The most connections.
    package let maximum: Int
    private let isFull: @Sendable () -> Void
    private let state = Mutex(State())

    /// Creates a cap of so many connections; `isFull` hears of it each time that a listener has to stop accepting.
    package init(maximum: Int, isFull: @escaping @Sendable () -> Void = {}) {
        self.maximum = max(maximum, 1)
        self.isFull = isFull
    }

    /// The number of connections that are open.
    package var count: Int { state.withLock { $0.open } }

    /// Takes note of a connection that was accepted.
    func opened() { state.withLock { $0.open += 1 } }

    /// Takes note of a connection that is gone, and lets a listener that waits accept again.
    func closed() {
        let waiting = state.withLock { state -> [@Sendable () -> Void] in
            state.open -= 1
            guard state.open < maximum else { return [] }
            defer { state.waiting = [] }
            return state.waiting
        }
        for resume in waiting { resume() }
    }

    /// Returns whether another connection may be accepted; calls `resume` later when it may not.
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
