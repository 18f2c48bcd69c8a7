/// A provider that knows the addresses of its own endpoints.
///
/// The broker never makes proofs for these addresses on behalf of backends.
package protocol EndpointOwning: ProviderClient {
    /// Returns whether an address belongs to the provider's own endpoints; throws if this is unknown now.
    func owns(_ address: ProofAddress) async throws(ProviderFailure) -> Bool
}
