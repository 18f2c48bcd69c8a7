import AsyncHTTPClient
package import Broker
import NIOCore
import NIOHTTP1
import NIOSSL

/// Holds the AsyncHTTPClients of one certificate, or of none: per address policy one for single calls and one that keeps
/// connections.
///
/// They close with the last call that holds them.
final class HTTPClients: Sendable {
    private let single: [AddressPolicy: HTTPClient]
    private let pooled: [AddressPolicy: HTTPClient]

    init(
        _ settings: TransportSettings, group: any EventLoopGroup, showing certificate: ClientCertificate? = nil,
        trusting roots: TrustRoots? = nil
    ) {
        var tls = Self.verified(settings, roots)
        if let certificate {
            tls.certificateChain = certificate.chain.map { .certificate($0) }
            tls.privateKey = .privateKey(certificate.key)
        }
        func make(keeping: Bool) -> [AddressPolicy: HTTPClient] {
            Dictionary(
                uniqueKeysWithValues: AddressPolicy.allCases.map { policy in
                    (
                        policy,
                        HTTPClient(
                            eventLoopGroupProvider: .shared(group),
                            configuration: Self.configuration(settings, tls, policy: policy, keeping: keeping))
                    )
                })
        }
        single = make(keeping: false)
        pooled = make(keeping: true)
    }

    private static func verified(_ settings: TransportSettings, _ roots: TrustRoots?) -> TLSConfiguration {
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.minimumTLSVersion = .tlsv12
        tls.certificateVerification = .fullVerification
        if let file = settings.caFile { tls.additionalTrustRoots = [.file(file)] }
        if let roots { tls.additionalTrustRoots.append(.certificates(roots.certificates)) }
        return tls
    }

    /// Makes a client that uses no connection to this machine: an outbound proxy's own address does not count.
    static func elsewhere(
        _ settings: TransportSettings, group: any EventLoopGroup, trusting roots: TrustRoots?, _ policy: AddressPolicy
    ) -> HTTPClient {
        var configuration = configuration(settings, verified(settings, roots), policy: policy, keeping: false)
        if settings.proxy == nil, let bounded = configuration.http1_1ConnectionDebugInitializer {
            configuration.http1_1ConnectionDebugInitializer = { channel in
                let remote = channel.remoteAddress?.ipAddress
                guard let remote, remote != channel.localAddress?.ipAddress, IPAddress(remote)?.isLoopback == false
                else {
                    channel.close(promise: nil)
                    return channel.eventLoop.makeFailedFuture(AddressPolicy.Refused())
                }
                return bounded(channel)
            }
        }
        return HTTPClient(eventLoopGroupProvider: .shared(group), configuration: configuration)
    }

    subscript(connection: ProviderRequest.ConnectionUse, policy: AddressPolicy) -> HTTPClient? {
        connection == .single ? single[policy] : pooled[policy]
    }

    deinit {
        let all = all
        Task.detached { await Self.shutdown(all) }
    }

    private var all: [HTTPClient] { Array(single.values) + Array(pooled.values) }

    func shutdown() async { await Self.shutdown(all) }

    private static func shutdown(_ clients: [HTTPClient]) async {
        for client in clients { try? await client.shutdown() }
    }

    private static func configuration(
        _ settings: TransportSettings, _ tls: TLSConfiguration, policy: AddressPolicy, keeping: Bool
    ) -> HTTPClient.Configuration {
        var configuration = HTTPClient.Configuration(
            tlsConfiguration: tls, redirectConfiguration: .disallow,
            timeout: .init(connect: .milliseconds(settings.connectTimeout.wholeMilliseconds)),
            // Decoded as a whole, by `ContentCoding`.
            decompression: .disabled)
        configuration.httpVersion = .http1Only
        // The spans of calls are `ProviderCaller`'s.
        configuration.tracing.tracer = nil
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = 256
        configuration.connectionPool.idleTimeout = .seconds(30)
        // A refused connection is known at once; whoever wants to may call again.
        configuration.connectionPool.retryConnectionEstablishment = false
        if !keeping { configuration.maximumUsesPerConnection = 1 }
        if let proxy = settings.proxy, policy != .loopbackOnly {
            // Behind a proxy the address connected to is the proxy's; it resolves names and has its own rules.
            configuration.proxy = .server(
                host: proxy.host, port: proxy.port,
                authorization: proxy.credentials.map { .basic(credentials: Base64.encode($0.bytes())) })
            configuration.http1_1ConnectionDebugInitializer = AnswerLimits.apply
        } else {
            let isAllowed = policy.initializer
            configuration.http1_1ConnectionDebugInitializer = { channel in
                isAllowed(channel).flatMap { AnswerLimits.apply(to: channel) }
            }
        }
        return configuration
    }
}

extension AddressPolicy {
    /// The refusal of an address.
    struct Refused: Error {}

    /// Returns what AsyncHTTPClient runs on a new connection before it sends anything on it.
    var initializer: @Sendable (any Channel) -> EventLoopFuture<Void> {
        { channel in
            guard !self.allows(channel.remoteAddress?.ipAddress.flatMap { IPAddress($0) }) else {
                return channel.eventLoop.makeSucceededVoidFuture()
            }
            channel.close(promise: nil)
            return channel.eventLoop.makeFailedFuture(Refused())
        }
    }
}

/// `outbound`: how provider calls leave this machine.
package struct TransportSettings: Sendable {
    /// An HTTP proxy (`outbound.proxy`, `http://user:password@host:port`).
    package struct Proxy: Sendable {
        package var host: String
        package var port: Int
        /// `user:password`, when the proxy wants one.
        package var credentials: Secret?

        package init(host: String, port: Int, credentials: Secret? = nil) {
            self.host = host
            self.port = port
            self.credentials = credentials
        }
    }

    /// `outbound.ca_file`: a PEM file of further trust roots.
    ///
    /// Verification itself cannot be switched off (SEC-111).
    package var caFile: String?
    /// `outbound.proxy`; calls to loopback do not use it.
    package var proxy: Proxy?
    /// `outbound.allow_private`: whether every provider may be reached at private addresses (SEC-74).
    package var allowPrivate: Bool
    /// The setting `outbound.connect_timeout`.
    package var connectTimeout: Duration

    package init(
        caFile: String? = nil, proxy: Proxy? = nil, allowPrivate: Bool = false,
        connectTimeout: Duration = .seconds(5)
    ) {
        self.caFile = caFile
        self.proxy = proxy
        self.allowPrivate = allowPrivate
        self.connectTimeout = connectTimeout
    }
}

/// The bytes of a provider's answer that are kept before its body: what comes beyond is no answer.
///
/// The library's own bounds are 2 MiB a head and 80 KiB a field, for each call under way, and it has no setting for
/// them.
enum AnswerLimits {
    /// The bounds for a decoder; trailers count as fields, too.
    private static var decoder: NIOHTTPDecoderLimitConfiguration {
        var limits = NIOHTTPDecoderLimitConfiguration()
        limits.maxHeaderListSize = 64 * 1024
        limits.maxHeaderFieldSize = 16 * 1024
        limits.maxHeaderFieldCount = 128
        return limits
    }

    /// Puts a decoder with these bounds in the place of AsyncHTTPClient's, before anything is sent on a new connection.
    @Sendable static func apply(to channel: any Channel) -> EventLoopFuture<Void> {
        channel.eventLoop.flatSubmit {
            do {
                let pipeline = channel.pipeline.syncOperations
                let encoder = try pipeline.handler(type: HTTPRequestEncoder.self)
                let decoder = try pipeline.handler(type: ByteToMessageHandler<HTTPResponseDecoder>.self)
                let place = NIOLoopBound(encoder, eventLoop: channel.eventLoop)
                // The handlers behind it speak the decoder's language: the new one is there in the same step in which
                // the old one goes.
                return pipeline.removeHandler(decoder).flatMapThrowing {
                    let bounded = HTTPResponseDecoder(
                        leftOverBytesStrategy: .dropBytes, informationalResponseStrategy: .forward,
                        limitConfiguration: Self.decoder)
                    try channel.pipeline.syncOperations.addHandler(
                        ByteToMessageHandler(bounded, maximumBufferSize: 64 * 1024), position: .after(place.value))
                }
            } catch {
                return channel.eventLoop.makeFailedFuture(error)
            }
        }
    }
}
