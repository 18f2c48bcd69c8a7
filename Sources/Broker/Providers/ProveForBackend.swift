/// Makes the DPoP proof that a backend needs for one request with a bound access token (`POST /v1/token`).
///
/// The key stays in the broker.
package struct ProveForBackend: Sendable {
    private let context: BrokerContext

    init(_ context: BrokerContext) { self.context = context }

    /// The request that a backend is about to make.
    package struct Target: Sendable {
        package let method: String
        package let address: String
        package let nonce: String?

        package init(method: String, address: String, nonce: String?) {
            self.method = method
            self.address = address
            self.nonce = nonce
        }
    }

    /// Returns the proof for one request with an access token.
    ///
    /// Throws `invalid_request` for a malformed address and for the provider's own endpoints. With a proof for these
    /// endpoints, the backend could act as the broker.
    package func proof(
        of access: AccessToken, for target: Target, session: LiveSession
    ) async throws(BrokerProblem) -> String {
        guard let key = access.key, let address = ProofAddress(target.address) else {
            throw BrokerProblem(.invalidRequest, with: .fields([FieldFault("dpop_htu", .malformed)]))
        }
        guard let provider = context.providers[session.facts.provider] as? any EndpointOwning else {
            throw BrokerProblem(.invalidRequest, with: .fields([FieldFault("dpop_htu", .notAllowed)]))
        }
        let isOwned: Bool
        do throws(ProviderFailure) { isOwned = try await provider.owns(address) } catch {
            throw BrokerProblem(starting: error)
        }
        guard !isOwned else {
            throw BrokerProblem(.invalidRequest, with: .fields([FieldFault("dpop_htu", .notAllowed)]))
        }
        do throws(VaultFailure) {
            return try ProofMaker(key, context.vault, context.clock).proof(
                method: target.method, address: target.address, nonce: target.nonce, token: access.token)
        } catch { throw BrokerProblem(error) }
    }
}
