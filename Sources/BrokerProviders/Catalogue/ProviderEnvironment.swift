import Broker

/// The parts of the process that every provider client uses.
struct ProviderEnvironment: Sendable {
    let http: ProviderHTTP
    let clock: BrokerClock
    let random: @Sendable (Int) throws -> [UInt8]
    /// The nonces for the broker's DPoP proofs.
    ///
    /// The nonces are kept when the configuration is reloaded.
    let nonces: ProofNonces
    /// Called with a detail for the log when a server refuses a client's certificate.
    let certificateRefused: @Sendable (ProviderName, ClientName, String) -> Void
    /// Called with a sentence for the log when an endpoint in a provider's new metadata is not a callable URL.
    let endpointUnusable: @Sendable (ProviderName, String) -> Void
    /// Called when a breaker opens or closes.
    let breakerTurned: @Sendable (BreakerTurn) -> Void

    /// Returns the caller for a provider's endpoints, or with `isLogOut` the caller for the provider's log-out page, which has
    /// its own breaker.
    func caller(_ settings: ProviderSettings, isLogOut: Bool = false) -> ProviderCaller {
        ProviderCaller(http: http, settings: settings, clock: clock) { [breakerTurned, name = settings.name] isOpen in
            breakerTurned(BreakerTurn(provider: name, isLogOut: isLogOut, isOpen: isOpen))
        }
    }
}
