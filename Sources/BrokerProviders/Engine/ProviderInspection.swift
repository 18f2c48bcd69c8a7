package import Broker

/// A provider's state for operators; it affects no decision and contains no secret.
package protocol ProviderInspection: ProviderClient {
    /// The circuit breaker's state now.
    var breaker: CircuitBreaker.State { get }

    /// The number of calls since the last success; all of them were unanswered or answered with a 5xx.
    var failuresInARow: Int { get }

    /// The certificates that the clients show.
    var identities: [(client: ClientName, identity: ClientIdentity)] { get }

    /// Sentences about faults that weaken security, for the readiness endpoint of the management listener.
    var warnings: [String] { get }

    /// Tests discovery, key set and clock, as far as the kind has them.
    func probe() async -> [ProbeResult]
}

extension ProviderInspection {
    package var warnings: [String] { [] }
    package var identities: [(client: ClientName, identity: ClientIdentity)] { [] }
}
