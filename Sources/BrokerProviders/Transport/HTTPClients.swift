import AsyncHTTPClient
import Broker
import NIOCore
import NIOHTTPCompression
import NIOSSL

/// Holds the AsyncHTTPClients: per address policy one for single calls and one that keeps connections.
struct HTTPClients: Sendable {
    private let single: [AddressPolicy: HTTPClient]
    private let pooled: [AddressPolicy: HTTPClient]

    init(_ settings: TransportSettings, group: any EventLoopGroup) {
        func make(keeping: Bool) -> [AddressPolicy: HTTPClient] {
            Dictionary(
                uniqueKeysWithValues: AddressPolicy.allCases.map { policy in
                    (
                        policy,
                        HTTPClient(
                            eventLoopGroupProvider: .shared(group),
                            configuration: Self.configuration(settings, policy: policy, keeping: keeping))
                    )
                })
        }
        single = make(keeping: false)
        pooled = make(keeping: true)
    }

    subscript(connection: ProviderRequest.ConnectionUse, policy: AddressPolicy) -> HTTPClient? {
        connection == .single ? single[policy] : pooled[policy]
    }

    func shutdown() async {
        for client in Array(single.values) + Array(pooled.values) { try? await client.shutdown() }
    }

    private static func configuration(
        _ settings: TransportSettings, policy: AddressPolicy, keeping: Bool
    ) -> HTTPClient.Configuration {
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.minimumTLSVersion = .tlsv12
        tls.certificateVerification = .fullVerification
        if let file = settings.caFile { tls.additionalTrustRoots = [.file(file)] }
        var configuration = HTTPClient.Configuration(
            tlsConfiguration: tls, redirectConfiguration: .disallow,
            timeout: .init(connect: .milliseconds(settings.connectTimeout.wholeMilliseconds)),
            decompression: .enabled(limit: .size(ProviderAnswer.maximumBytes)))
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
