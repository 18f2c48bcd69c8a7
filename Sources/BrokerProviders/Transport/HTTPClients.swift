import AsyncHTTPClient
import Broker
import NIOCore
import NIOHTTP1
import NIOSSL

/// The AsyncHTTPClients of one certificate, or of calls that show no certificate.
///
/// Each address policy has one `HTTPClient` for single calls and one that keeps its connections. These clients close after the
/// last call that uses them.
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

    /// Makes an `HTTPClient` that refuses connections to this machine; connections to an outbound proxy are permitted.
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
            // `ContentCoding` decodes the whole body later.
            decompression: .disabled)
        configuration.httpVersion = .http1Only
        // `ProviderCaller` makes the tracing spans of calls instead of the library.
        configuration.tracing.tracer = nil
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = 256
        configuration.connectionPool.idleTimeout = .seconds(30)
        // If a connection is refused, the library reports it at once instead of retrying. The caller may retry the call.
        configuration.connectionPool.retryConnectionEstablishment = false
        if !keeping { configuration.maximumUsesPerConnection = 1 }
        if let proxy = settings.proxy, policy != .loopbackOnly {
            // With a proxy, connections go to the proxy's address, so the address policy is not checked here. The proxy
            // resolves the names and has its own rules.
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
    /// An error for an address that must not be called.
    struct Refused: Error {}

    /// Returns the check that AsyncHTTPClient makes on each new connection before it sends.
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
