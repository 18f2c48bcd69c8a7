import Broker
import BrokerWire
import NIOHTTP1

/// The proofs of one access token in one relayed call (RFC 9449 section 7).
///
/// Each proof is sent once. If the upstream requests another nonce, a second proof is sent.
struct RelayProof {
    private let proofs: RelayProofs
    private let maker: ProofMaker
    private let place: ProofNonces.Place
    private let address: String
    private var exchange: NonceExchange

    /// Creates the proofs for calls to `target`, the path that is sent to the upstream; nil for a token that needs no proof.
    init?(
        _ token: AccessToken, _ proofs: RelayProofs?, _ upstream: UpstreamSettings, session: LiveSession, target: String
    ) {
        guard let key = token.key, let proofs else { return nil }
        let base = upstream.proof.publicBase ?? upstream.base
        self.proofs = proofs
        maker = ProofMaker(key, proofs.signer, proofs.clock)
        // `target` begins with the path of `base_url`. Proofs name the path of `public_url`, which may differ.
        address = base.prefix + target.dropFirst(upstream.base.path.utf8.count)
        place = ProofNonces.Place(
            provider: session.facts.provider, client: session.facts.client, origin: base.origin, role: .resource)
        exchange = NonceExchange(nonce: proofs.nonces.newest(at: place))
    }

    /// Returns the `DPoP` field with a new proof.
    func field(_ method: String, _ token: Secret) throws(VaultFailure) -> (name: String, value: String) {
        ("DPoP", try maker.proof(method: method, address: address, nonce: exchange.sent, token: token))
    }

    /// Stores the nonce in an answer, and returns the next action.
    mutating func heard(_ response: UpstreamResponse) -> NonceExchange.Action {
        let newest = proofs.nonces.newest(at: place)
        let values = response.headers["DPoP-Nonce"]
        let given = values.count == 1 ? values.first.flatMap { ProofNonces.isNonce($0) ? $0 : nil } : nil
        if let given { proofs.nonces.note(given, at: place, moment: proofs.clock.monotonic()) }
        return exchange.answered(
            asksForNonce: response.status == .unauthorized && response.challenges("use_dpop_nonce"), nonce: given,
            newest: newest)
    }
}

extension UpstreamResponse {
    /// Returns whether one of the challenges names an error, ignoring upper and lower case (RFC 9449 sections 7.1 and 9).
    func challenges(_ error: String) -> Bool {
        headers["WWW-Authenticate"].contains { field in
            let plain = field.lowercased().filter { $0 != " " && $0 != "\t" && $0 != "\"" }
            return plain.contains("error=\(error)")
        }
    }
}
