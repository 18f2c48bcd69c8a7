import Broker
import Synchronization

/// One call with proofs of the key that tokens are bound to (RFC 9449): what its server was sent, and what it asked for.
final class ProvenCall: Sendable {
    private struct State {
        var exchange: NonceExchange
        /// The newest nonce that was known before the last answer came, or, of a confirming call, when it was sent.
        var newest: String?
    }

    let proof: ProofMaker
    let place: ProofNonces.Place
    private let nonces: ProofNonces
    private let clock: BrokerClock
    /// Whether it confirms another: on a busy process the newest nonce changes while any call is under way.
    private let confirms: Bool
    /// Guards what was sent and asked.
    private let state: Mutex<State>

    /// Creates the call; its first nonce is the newest, unless it repeats a sending whose nonce is given.
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

    /// The nonces that were sent and asked for.
    var exchange: NonceExchange { state.withLock { $0.exchange } }

    /// Returns the field with a new proof, for one sending.
    func field(
        _ method: String, _ url: EndpointURL, token: Secret? = nil
    ) throws(VaultFailure) -> (name: String, value: String) {
        if confirms { state.withLock { $0.newest = nonces.newest(at: place) } }
        return ("DPoP", try proof.proof(method: method, address: url.text, nonce: exchange.sent, token: token))
    }

    /// Keeps the nonce of an answer, whatever else it says.
    func heard(_ answer: ProviderAnswer) {
        if !confirms { state.withLock { $0.newest = nonces.newest(at: place) } }
        if let nonce = answer.proofNonce { nonces.note(nonce, at: place, moment: clock.monotonic()) }
    }

    /// Returns whether the call is to be made once more; throws `retryable` where its server is not satisfied by that.
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
