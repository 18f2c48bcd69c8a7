import NIOCore

/// The connections of one event loop to one upstream: the one that was used last is used first, and what is not needed
/// closes after a while.
///
/// How many there are is bounded by the calls that may be under way; how many are kept without a call is bounded here.
final class UpstreamPool {
    let limits: UpstreamLimits
    let executor: EventLoopExecutor
    private let connector: UpstreamConnector
    private let eventLoop: any EventLoop
    /// Those without a call, the last used one last.
    private var kept: [UpstreamConnectionHandler] = []
    private var open: [ObjectIdentifier: UpstreamConnectionHandler] = [:]
    /// Those of them that have served their last call and wait for the upstream to close.
    private var lingering: Set<ObjectIdentifier> = []
    /// Calls that wait for a connection to be made, and how many are being made.
    private var waiting = CircularBuffer<UpstreamExchange>()
    private var connecting = 0
    private var isShutDown = false

    init(_ connector: UpstreamConnector, _ limits: UpstreamLimits, on eventLoop: any EventLoop) {
        self.connector = connector
        self.limits = limits
        self.eventLoop = eventLoop
        executor = EventLoopExecutor(eventLoop)
    }

    /// Sends a call on a connection that is kept, or on a new one.
    func begin(_ exchange: UpstreamExchange) {
        if exchange.isOver { return }
        // One that ends its connection takes none that others could use.
        if !exchange.request.endsConnection, let connection = kept.popLast() { return connection.begin(exchange) }
        connect(for: exchange)
    }

    /// Sends a call on a new connection.
    func connect(for exchange: UpstreamExchange) {
        if isShutDown { return exchange.finish(.failure(.shutDown)) }
        exchange.connectBy = .now() + .nanoseconds(min(limits.connect.nanoseconds, exchange.request.limit))
        // A connection that is being made for somebody who went away serves the next: giving up makes no more of them.
        waiting.removeAll { $0.isOver }
        waiting.append(exchange)
        guard connecting < waiting.count else { return }
        open(before: exchange.connectBy)
    }

    private func open(before deadline: NIODeadline) {
        connecting += 1
        connector.open(on: eventLoop, before: deadline).assumeIsolated().whenComplete { result in
            switch result {
            case .success(let channel): self.configure(channel, before: deadline)
            case .failure(let error): self.connected(.failure(error))
            }
        }
    }

    private func configure(_ channel: any Channel, before deadline: NIODeadline) {
        let connection = UpstreamConnectionHandler(self, channel: channel, readyBy: deadline) { self.connected($0) }
        open[ObjectIdentifier(connection)] = connection
        do { try connector.configure(channel, connection) } catch {
            connection.fail(ready: error)
            forget(connection)
        }
    }

    private func connected(_ result: Result<UpstreamConnectionHandler, any Error>) {
        connecting -= 1
        var exchange = waiting.popFirst()
        while exchange?.isOver == true { exchange = waiting.popFirst() }
        switch result {
        case .success(let connection):
            if isShutDown { connection.close() }
            if let exchange { connection.begin(exchange) } else { release(connection) }
        case .failure(let error):
            guard let exchange else { return }
            let failure = UpstreamConnector.failure(error)
            if case .connectionTimedOut = failure, !isShutDown, exchange.connectBy > .now() {
                // It was begun for somebody who went away: whoever inherited it has time of its own left.
                waiting.prepend(exchange)
                return open(before: exchange.connectBy)
            }
            exchange.finish(.failure(failure))
        }
    }

    /// Takes note of a connection whose upstream is given a moment to close; false when there are enough of them.
    func letLinger(_ connection: UpstreamConnectionHandler) -> Bool {
        guard !isShutDown, lingering.count < limits.lingering else { return false }
        lingering.insert(ObjectIdentifier(connection))
        return true
    }

    /// Keeps a connection for another call.
    func release(_ connection: UpstreamConnectionHandler) {
        guard !isShutDown, kept.count < limits.kept else { return connection.close() }
        kept.append(connection)
    }

    /// Forgets a connection that is closed.
    func forget(_ connection: UpstreamConnectionHandler) {
        lingering.remove(ObjectIdentifier(connection))
        guard open.removeValue(forKey: ObjectIdentifier(connection)) != nil else { return }
        kept.removeAll { $0 === connection }
    }

    /// Closes every connection; calls under way fail.
    func shutDown() {
        isShutDown = true
        for connection in Array(open.values) { connection.close() }
    }
}

@available(*, unavailable)
extension UpstreamPool: Sendable {}
