import Broker
import Synchronization

/// One call with DPoP proofs of the key that tokens are bound to (RFC 9449), and the nonces in the call.
final class ProvenCall: Sendable {
    private struct State {
        var exchange: NonceExchange
        /// The newest nonce at this place before the last answer arrived.
        ///
        /// For a confirming call, the newest nonce when the request was sent.
        var newest: String?
    }

    let proof: ProofMaker
    let place: ProofNonces.Place
    private let nonces: ProofNonces
    private let clock: BrokerClock
    /// Whether the call confirms an earlier one whose answer was lost.
    ///
    /// A confirming call compares with the newest nonce at its sending, because in a busy process other calls bring newer
    /// nonces meanwhile.
    private let confirms: Bool
    /// Guards the nonces that were sent and requested.
    private let state: Mutex<State>

    /// Creates the call.
    ///
    /// Its first nonce is `nonce`, for repeating a request, or else the newest nonce at this place.
    init(
        _ proof: ProofMaker, at place: ProofNonces.Place, _ nonces: ProofNonces, _ clock: BrokerClock,
        repeating nonce: String? = nil, confirms: Bool = false
    ) {
        self.confirms = confirms
        self.proof = proof
        self.place = place
        self.nonces = nonces
        self.clock = clock
        state = Mutex(State(exchange: NonceExchange(nonce: nonce ?? nonces.newest(at: place))))
    }

    /// The nonces that were sent and requested.
    var exchange: NonceExchange { state.withLock { $0.exchange } }

    /// Returns the `DPoP` field with a new proof; each proof is sent only one time.
    func field(
        _ method: String, _ url: EndpointURL, token: Secret? = nil
    ) throws(VaultFailure) -> (name: String, value: String) {
        if confirms { state.withLock { $0.newest = nonces.newest(at: place) } }
        return ("DPoP", try proof.proof(method: method, address: url.text, nonce: exchange.sent, token: token))
    }

    /// Stores the nonce of an answer, even if the answer is a refusal.
    func heard(_ answer: ProviderAnswer) {
        if !confirms { state.withLock { $0.newest = nonces.newest(at: place) } }
        if let nonce = answer.proofNonce { nonces.note(nonce, at: place, moment: clock.monotonic()) }
    }

    /// Returns whether the call must be repeated with another nonce; throws `retryable` if the server requests another nonce
    /// again.
    func asksAgain(_ answer: ProviderAnswer) throws(ProviderFailure) -> Bool {
        let action = state.withLock { state in
            state.exchange.answered(
                asksForNonce: answer.asksForNonce, nonce: answer.proofNonce, newest: state.newest)
        }
        switch action {
        case .take: return false
        case .sendAgain: return true
        case .giveUp:
            throw .retryable(
                status: answer.status, retryAfter: .seconds(1), detail: "the server asks for another nonce again")
        }
    }
}
