package import NIOCore
package import NIOSSL

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
    /// With `connecting`, the request uses a new connection. Set it if the request was already sent on a kept connection and
    /// lost.
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

/// An upstream's host, port and TLS context, and the proxy that leads there.
package struct UpstreamTarget: Sendable {
    /// A proxy that connects to the upstream.
    package struct Proxy: Sendable {
        let host: String
        let port: Int
        /// The value of `Proxy-Authorization`.
        let credentials: String?

        package init(host: String, port: Int, credentials: String? = nil) {
            self.host = host
            self.port = port
            self.credentials = credentials
        }
    }

    /// A name, or an IP address without brackets.
    package let host: String
    package let port: Int
    /// The context for TLS, or the error that prevented it; nil for plain HTTP.
    package var tls: Result<NIOSSLContext, any Error>?
    package var proxy: Proxy?
    /// Returns whether calls to an address are allowed.
    ///
    /// The address is nil if it is unknown.
    package var allows: @Sendable (SocketAddress?) -> Bool

    package init(host: String, port: Int, allows: @escaping @Sendable (SocketAddress?) -> Bool) {
        self.host = host
        self.port = port
        self.allows = allows
    }

    /// The host as a socket address, if it is an IP address.
    var address: SocketAddress? { try? SocketAddress(ipAddress: host, port: port) }
}

/// The limits of one upstream's connections: the number of idle connections, and the times.
package struct UpstreamLimits: Sendable {
    /// The number of idle connections that an event loop keeps.
    package var kept = 1024
    /// The longest time that a connection may be idle before it is closed.
    package var idle: TimeAmount = .seconds(30)
    /// The longest time without input within an answer.
    package var silence: TimeAmount = .seconds(60)
    /// The time that an answer's head waits for the first piece of its body.
    ///
    /// If the upstream breaks off within this time, the app receives a complete error from the broker instead of half an
    /// answer.
    package var hold: TimeAmount = .seconds(1)
    /// The time that the upstream has to close a connection after its last answer, and the largest number of such connections
    /// for each event loop.
    package var linger: TimeAmount = .milliseconds(500)
    package var lingering = 64
    /// The longest time to connect, including the TLS handshake.
    package var connect: TimeAmount = .seconds(5)

    package init() {}

    /// The time that one idle connection is kept, in nanoseconds.
    ///
    /// The time varies, so that connections which were opened together do not all close together.
    var idleOfOne: Int64 { .random(in: idle.nanoseconds * 4 / 5...max(idle.nanoseconds, 0)) }
}

/// The reason why a call to an upstream has no answer, or an incomplete one.
package enum UpstreamFailure: Error, Sendable {
    /// The connection of the call failed.
    case call(UpstreamConnection.Failure)
    /// The connection could not be made.
    ///
    /// The value is the error's type only, because the error's text may contain data of the request.
    case connection(String)
    /// The connection was not made in time.
    case connectionTimedOut
    /// The address policy forbids calls to the upstream's address.
    case refusedAddress
    /// The request's body is longer than announced or allowed.
    case requestTooLong
    /// The request's body is shorter than announced.
    case requestTooShort
    /// The request's body could not be read.
    case request(any Error)
    /// The caller left before the call had a connection.
    case abandoned
    /// The client was shut down.
    case shutDown

    /// Whether the upstream has received no byte of the request.
    package var isBeforeSending: Bool {
        switch self {
        case .connection, .connectionTimedOut, .refusedAddress, .abandoned, .shutDown: true
        case .call, .requestTooLong, .requestTooShort, .request: false
        }
    }

    /// The same failure for a call that was sent once before, so the upstream may have seen the request.
    var afterSending: UpstreamFailure {
        switch self {
        case .connectionTimedOut: .call(.timedOut)
        case .abandoned: .call(.abandoned)
        case .connection, .refusedAddress, .shutDown: .call(.broken)
        default: self
        }
    }
}
