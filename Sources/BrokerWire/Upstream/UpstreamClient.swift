package import NIOCore
package import NIOSSL

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

    /// Sends a request on the loop that it came on, and returns the response once its head is there; `connecting` anew, on no
    /// connection that was kept, because it was sent before and lost.
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

    /// Closes every connection, for good; calls under way fail.
    package func shutDown() async {
        for pool in [anywhere] + pools.values { try? await pool.eventLoop.submit { pool.value.shutDown() }.get() }
    }
}

/// An upstream's address, and the way there.
package struct UpstreamTarget: Sendable {
    /// A proxy that connects for us.
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

    /// A name, or an address without brackets.
    package let host: String
    package let port: Int
    /// The context for TLS; nil for none.
    package var tls: Result<NIOSSLContext, any Error>?
    package var proxy: Proxy?
    /// Says whether a call may be sent to an address, which nil is when it is not known.
    package var allows: @Sendable (SocketAddress?) -> Bool

    package init(host: String, port: Int, allows: @escaping @Sendable (SocketAddress?) -> Bool) {
        self.host = host
        self.port = port
        self.allows = allows
    }

    /// The host as an address, if it is one.
    var address: SocketAddress? { try? SocketAddress(ipAddress: host, port: port) }
}

/// The bounds of an upstream's connections: the number kept, and the times.
package struct UpstreamLimits: Sendable {
    /// The number of connections that an event loop keeps without a call.
    package var kept = 1024
    /// The time for which one is kept without a call, at most.
    package var idle: TimeAmount = .seconds(30)
    /// The longest silence within an answer.
    package var silence: TimeAmount = .seconds(60)
    /// The time for which an answer's head waits for the first piece of its body: until then an upstream that breaks
    /// off is an answer of ours, and not half of one of its own.
    package var hold: TimeAmount = .seconds(1)
    /// The time that an upstream may take to close a connection that ends with its answer, and how many such an event
    /// loop waits for.
    package var linger: TimeAmount = .milliseconds(500)
    package var lingering = 64
    /// The longest time to connect, TLS included.
    package var connect: TimeAmount = .seconds(5)

    package init() {}

    /// The time for which one connection is kept, in nanoseconds: not all of them equally long, so that what was opened
    /// together is not all opened anew together.
    var idleOfOne: Int64 { .random(in: idle.nanoseconds * 4 / 5...max(idle.nanoseconds, 0)) }
}

/// The reason for which a call to an upstream has no answer, or no whole one.
package enum UpstreamFailure: Error, Sendable {
    /// The connection that it was on.
    case call(UpstreamConnection.Failure)
    /// No connection could be made; the error's type is all that is told of it, because it may hold what was sent.
    case connection(String)
    /// No connection could be made in time.
    case connectionTimedOut
    /// The upstream's address is not one that is called.
    case refusedAddress
    /// The request's body is longer than it said, or than it may be.
    case requestTooLong
    /// The request's body is shorter than it said.
    case requestTooShort
    /// The request's body could not be read.
    case request(any Error)
    /// The caller went away before there was a connection for the call.
    case abandoned
    /// The client was shut down.
    case shutDown

    /// Whether no byte of the request has gone to the upstream.
    package var isBeforeSending: Bool {
        switch self {
        case .connection, .connectionTimedOut, .refusedAddress, .abandoned, .shutDown: true
        case .call, .requestTooLong, .requestTooShort, .request: false
        }
    }

    /// The same failure of a call that was sent before: of that nobody knows what the upstream saw.
    var afterSending: UpstreamFailure {
        switch self {
        case .connectionTimedOut: .call(.timedOut)
        case .abandoned: .call(.abandoned)
        case .connection, .refusedAddress, .shutDown: .call(.broken)
        default: self
        }
    }
}
