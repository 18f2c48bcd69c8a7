package import Broker

/// Tests the old systems of a provider's clients for `coatcheck check --online`.
package protocol OldSystemProbing: ProviderClient {
    func probeOldSystems() async -> [ProbeResult]
}
