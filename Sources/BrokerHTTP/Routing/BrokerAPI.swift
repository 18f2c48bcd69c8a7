import Broker
import BrokerRelay
import HTTPTypes

/// The dependencies of the handlers: the use cases, the configuration and the limits.
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
    let constants: ConstantBodies
    /// The work under way on all listeners.
    let load: ServerLoad
    private let ledger: ChargeLedger

    init(
        useCases: BrokerUseCases, relay: Relay?, configuration: HTTPConfiguration, listener: ListenerName,
        load: ServerLoad, ledger: ChargeLedger? = nil, clock: BrokerClock,
        digest: @escaping @Sendable ([UInt8]) -> Digest
    ) {
        self.useCases = useCases
        self.relay = relay
        self.load = load
        self.configuration = configuration
        self.clock = clock
        self.digest = digest
        name = PublicName(
            configuration, further: listener == .backend ? [configuration.backendListen].compactMap { $0 } : [])
        cookies = CookieWriter(configuration, isSecure: name.isSecure, now: clock.now)
        rules = ListenerRules(configuration, name: name, cookies: cookies, kind: listener)
        constants = ConstantBodies(configuration, profiles: useCases.profiles)
        self.ledger = ledger ?? ChargeLedger(configuration.limits.charges, monotonic: clock.monotonic)
    }

    /// Returns whom the request's costs are charged to (SEC-119, SEC-121); the routes hand it to the use cases, which
    /// know what arises.
    func charge(_ call: Call) -> Charge {
        // Without an address (a Unix socket, a test) there is nobody to tell apart.
        guard let peer = call.connection?.address, !(name.isLoopback && peer.isLoopback) else {
            return Charge(nil, in: ledger)
        }
        return Charge(rules.client(of: call).address.map(configuration.translators.client), in: ledger)
    }

    /// The payer of the checks of proofs that a proven backend brings.
    var backendProofCharge: ProofCharge { ProofCharge(ofBackendIn: ledger) }
}
