import Broker
import BrokerRelay
import HTTPTypes

/// What the handlers work with: the use cases, the configuration and the limits.
///
/// The handlers themselves are its extensions in `Routes/`.
final class BrokerAPI: Sendable {
    let useCases: BrokerUseCases
    /// The relay to upstreams; nil when none is configured.
    let relay: Relay?
    let configuration: HTTPConfiguration
    let name: PublicName
    let cookies: CookieWriter
    let clock: BrokerClock
    /// SHA-256, for comparing credentials with what is stored of them.
    let digest: @Sendable ([UInt8]) -> Digest
    let rules: ListenerRules
    private let logins: TokenBuckets
    private let wrongTokens: TokenBuckets

    init(
        useCases: BrokerUseCases, relay: Relay?, configuration: HTTPConfiguration, listener: ListenerKind,
        clock: BrokerClock, digest: @escaping @Sendable ([UInt8]) -> Digest
    ) {
        self.useCases = useCases
        self.relay = relay
        self.configuration = configuration
        self.clock = clock
        self.digest = digest
        name = PublicName(
            configuration, further: listener == .backend ? [configuration.backendListen].compactMap { $0 } : [])
        cookies = CookieWriter(configuration, isSecure: name.isSecure)
        rules = ListenerRules(configuration, name: name, cookies: cookies, kind: listener)
        logins = TokenBuckets(perMinute: configuration.limits.loginsPerMinute, monotonic: clock.monotonic)
        wrongTokens = TokenBuckets(perMinute: configuration.limits.wrongTokensPerMinute, monotonic: clock.monotonic)
    }

    /// Counts an attempt to sign in; throws `rate_limited` when the address made too many (SEC-119).
    func countLogin(_ call: Call) throws(BrokerProblem) { try count(call, in: logins) }

    /// Counts a secret that was not found; throws `rate_limited` when the address tried too many (SEC-121).
    func countWrongToken(_ call: Call) throws(BrokerProblem) { try count(call, in: wrongTokens) }

    private func count(_ call: Call, in buckets: TokenBuckets) throws(BrokerProblem) {
        // Without an address (a Unix socket, a test) there is nobody to tell apart.
        guard let peer = call.connection?.peer else { return }
        if name.isLoopback, peer.isLoopback { return }
        guard let address = rules.client(of: call).address, let wait = buckets.take(address) else { return }
        throw BrokerProblem(.rateLimited, retryAfter: wait)
    }
}
