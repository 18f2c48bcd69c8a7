import Broker
import Synchronization

/// One call with DPoP proofs by the key that tokens are bound to (RFC 9449), and the call's nonces.
///
/// The call's `place` is the server that issues the nonces, together with the client that they are for.
final class ProvenCall: Sendable {
    private struct State {
        var exchange: NonceExchange
        /// The newest known nonce of the server, read just before the last answer was handled.
        ///
        /// If `confirms` is true, the nonce is read when the request is sent.
        var newest: String?
    }

    let proof: ProofMaker
    let place: ProofNonces.Place
    private let nonces: ProofNonces
    private let clock: BrokerClock
    /// Whether the call confirms an earlier call whose answer was lost.
    ///
    /// After a refusal, the sent nonce is compared with the newest nonce, to find out whether the sent nonce was outdated.
    /// Other calls in the process may get newer nonces meanwhile. So a confirming call compares with the nonce that was the
    /// newest when the call was sent.
    private let confirms: Bool
    /// Guards the state of the call's nonces.
    private let state: Mutex<State>

    /// Creates the call.
    ///
    /// The first proof has the given nonce if an earlier request is repeated, or else the server's newest nonce.
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

    /// The state of the nonces: the nonce that was sent last, and whether the server requested another nonce.
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

    /// Returns whether the call must be repeated with another nonce; throws `retryable` if the repeated call is refused for
    /// its nonce, too.
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
