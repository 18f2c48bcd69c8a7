package import Broker

/// Pushes authorization requests that are never used, for `coatcheck check --online`.
///
/// Each request contains the client's authentication, as in a login, and a proof of a temporary key if tokens are bound by
/// DPoP.
package protocol RequestPushing: ProviderClient {
    func pushUnopened(_ signer: any ProofSigner) async -> [ProbeResult]
}
