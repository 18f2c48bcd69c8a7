package import NIOCore

/// The connections to one upstream, in a pool for each event loop.
///
/// A call stays on the event loop of the app's connection. One upstream's faults and time-outs do not affect other upstreams.
/// The caller handles redirects, encoded bodies and credentials (SEC-61). The connections close with the last reference to the
/// client.
package final class UpstreamClient: Sendable {
    private let pools: [ObjectIdentifier: NIOLoopBoundBox<UpstreamPool>]
    private let anywhere: NIOLoopBoundBox<UpstreamPool>

    package init(_ target: UpstreamTarget, _ limits: UpstreamLimits, on group: any EventLoopGroup) {
        let connector = UpstreamConnector(target: target)
        func pool(_ loop: any EventLoop) -> NIOLoopBoundBox<UpstreamPool> {
            .makeBoxSendingValue(UpstreamPool(connector, limits, on: loop), eventLoop: loop)
        }
        let pools = group.makeIterator().map { pool($0) }
        self.pools = Dictionary(uniqueKeysWithValues: pools.map { (ObjectIdentifier($0.eventLoop), $0) })
        anywhere = pools.first ?? pool(group.any())
    }

    deinit {
        for pool in [anywhere] + pools.values { pool.eventLoop.execute { pool.value.shutDown() } }
    }

    /// Sends a request on its caller's event loop, and returns the response when its head has arrived.
    ///
    /// With `connecting`, the request uses a new connection. Pass true if the request was already sent on a kept connection that
    /// closed before the answer.
    package func send(
        _ request: UpstreamRequest, on loop: (any EventLoop)? = nil, connecting: Bool = false
    ) async throws(UpstreamFailure) -> UpstreamResponse {
        let pool = loop.flatMap { pools[ObjectIdentifier($0)] } ?? anywhere
        let exchange = NIOLoopBoundBox.makeBoxSendingValue(UpstreamExchange(request), eventLoop: pool.eventLoop)
        let head = await exchange.wait { call, continuation in
            call.isRepeated = connecting
            call.readHead(continuation)
            if connecting, !call.isOver { pool.value.connect(for: call) } else { pool.value.begin(call) }
        }
        return UpstreamResponse(try head.get(), exchange)
    }

    /// Closes every connection for good.
    ///
    /// Calls in progress fail.
    package func shutDown() async {
        for pool in [anywhere] + pools.values { try? await pool.eventLoop.submit { pool.value.shutDown() }.get() }
    }
}
