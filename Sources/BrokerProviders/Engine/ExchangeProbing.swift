package import Broker

/// Tests token exchange for `coatcheck check --online`.
///
/// Many servers refuse token exchange to some of their clients, and the metadata does not name these clients.
package protocol ExchangeProbing: ProviderClient {
    func probeExchange() async -> [ProbeResult]
}
