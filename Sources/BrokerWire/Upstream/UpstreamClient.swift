package import NIOCore

/// The connections to one upstream: a pool for each event loop, so that a call stays on the loop of the app's connection,
/// and one upstream's trouble and timeouts are nobody else's.
///
/// It follows no redirect, decodes no body and remembers no credential (SEC-61). Its connections close when nobody holds
/// it any more.
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

    /// Sends a request on the loop that it came on, and returns the response once its head is there.
    package func send(
        _ request: UpstreamRequest, on loop: (any EventLoop)? = nil
    ) async throws(UpstreamFailure) -> UpstreamResponse {
        let pool = loop.flatMap { pools[ObjectIdentifier($0)] } ?? anywhere
        let exchange = NIOLoopBoundBox.makeBoxSendingValue(UpstreamExchange(request), eventLoop: pool.eventLoop)
        let head = await exchange.wait { call, continuation in
            call.readHead(continuation)
            pool.value.begin(call)
        }
        return UpstreamResponse(try head.get(), exchange)
    }

    /// Closes every connection, for good; calls under way fail.
    package func shutDown() async {
        for pool in [anywhere] + pools.values { try? await pool.eventLoop.submit { pool.value.shutDown() }.get() }
    }
}
