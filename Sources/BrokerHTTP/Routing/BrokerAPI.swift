import Broker
import BrokerRelay
import HTTPTypes

/// The dependencies of the handlers: the use cases, the configuration and the limits.
///
/// The handlers are extensions of this class, in `Routes/`.
final class BrokerAPI: Sendable {
    let useCases: BrokerUseCases
    /// The relay to upstreams; nil if the configuration has no upstreams.
    let relay: Relay?
    let configuration: HTTPConfiguration
    let name: PublicName
    let cookies: CookieWriter
    let clock: BrokerClock
    /// SHA-256, for comparing credentials with their stored digests.
    let digest: @Sendable ([UInt8]) -> Digest
    let rules: ListenerRules
    let constants: ConstantBodies
    /// The work in progress on all listeners.
    let load: ServerLoad
    /// The charge for checking the proofs that an authenticated backend sends; it counts for no address, but for the
    /// session.
    let backendProofCharge: ProofCharge
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
        let ledger = ledger ?? ChargeLedger(configuration.limits.charges, monotonic: clock.monotonic)
        self.ledger = ledger
        backendProofCharge = ProofCharge(ofBackendIn: ledger)
    }

    /// Returns the charge of a request (SEC-119, SEC-121).
    ///
    /// The use cases book the request's costs on this charge, which counts them for the client's address.
    func charge(_ call: Call) -> Charge {
        // Without an address (a Unix socket or a test), or on loopback in development, the callers are indistinguishable.
        // Their requests are not charged.
        guard let peer = call.connection?.address, !(name.isLoopback && peer.isLoopback) else {
            return Charge(nil, in: ledger)
        }
        return Charge(rules.client(of: call).address.map(configuration.translators.client), in: ledger)
    }
}
