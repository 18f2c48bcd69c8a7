/// The party that pays for a request.
///
/// The party is an address, which has token buckets and a share of each limit.
///
/// A use case receives the charge with its input. The use case takes each cost before the cost arises, for example before a
/// row is made or a provider is called.
package struct Charge: Sendable {
    private let ledger: ChargeLedger?
    private let address: IPAddress?

    /// The charge of a caller who has no limits and pays nothing.
    package static let nobody = Charge(ledger: nil, address: nil)

    private init(ledger: ChargeLedger?, address: IPAddress?) {
        self.ledger = ledger
        self.address = address
    }

    /// Creates the charge of a caller's address; with a nil address, nothing is charged, but the charges of other addresses
    /// can be refunded.
    package init(_ address: IPAddress?, in ledger: ChargeLedger) {
        self.init(ledger: ledger, address: address)
    }

    /// The payer for checking the proofs of the caller's session.
    package var ofProofs: ProofCharge {
        guard let ledger, let address else { return .nobody }
        return ProofCharge(address, in: ledger)
    }

    /// Takes the cost of an item; throws `rate_limited` if the address has used up its limit.
    ///
    /// An item that is already charged costs nothing more. If `payer` names a login or exchange, its charge pays for the
    /// item. The item then counts only towards the address's share of pending items. If the item is a guess, the address is
    /// also charged for a wrong token.
    func take(
        _ item: ChargedItem, for key: Digest, lasting: Duration, paidBy payer: Digest? = nil, isGuess: Bool = false
    ) throws(BrokerProblem) {
        guard let ledger, let address else { return }
        let wait = ledger.take(item, key, from: address, lasting: lasting, payer: payer, isGuess: isGuess)
        if let wait { throw Self.refusal(wait, "\(item)") }
    }

    /// Stops counting an item towards the address's share, because the item's row was not made.
    func drop(_ item: ChargedItem, for key: Digest) { ledger?.drop(item, key) }

    /// Refunds the charges for the items that led to a new session or a step-up, to the addresses that paid them.
    func sessionMade(exchange: Digest, gate: ExchangeGate) { ledger?.giveBack(exchange: exchange, gate: gate) }

    /// Whether the charge of a login or registration pays for its next provider call.
    func hasPaidCall(of key: Digest) -> Bool {
        guard let ledger, address != nil else { return true }
        return ledger.calls(of: key) < ChargeLedger.paidCalls
    }

    /// Takes the cost of a provider call after the login's or registration's own charge is used up.
    func takeFurtherCall() throws(BrokerProblem) {
        guard let ledger, let address, let wait = ledger.takeCall(from: address) else { return }
        throw Self.refusal(wait, "calls")
    }

    /// Takes the cost of a child session, which equals that of a started login; throws `rate_limited` if the address has used
    /// up its limit.
    func takeChild() throws(BrokerProblem) {
        guard let ledger, let address, let wait = ledger.takeCall(from: address) else { return }
        throw Self.refusal(wait, "child sessions")
    }

    /// Counts a provider call of a login or registration that is about to be made.
    func countCall(of key: Digest) { ledger?.countCall(of: key) }

    /// Takes the cost of verifying a proof's signature, unless the login, exchange or registration of this key has paid for it.
    func takeSignature(of key: Digest) throws(BrokerProblem) {
        guard let ledger, let address, let wait = ledger.takeSignature(of: key, from: address) else { return }
        throw Self.refusal(wait, "signatures of proofs")
    }

    /// Takes the cost of an unknown secret; throws `rate_limited` if the caller tried too many (SEC-121).
    package func takeWrongToken() throws(BrokerProblem) {
        guard let ledger, let address, let wait = ledger.takeWrongToken(from: address) else { return }
        throw Self.refusal(wait, "wrong tokens")
    }

    /// Refunds the cost of a guess that was right.
    func giveBackWrongToken() {
        guard let ledger, let address else { return }
        ledger.giveBackWrongToken(to: address)
    }

    /// Runs a lookup by a secret, and charges a wrong token if it fails.
    ///
    /// The charge comes after the lookup, so a caller with a known token is never limited.
    package func forWrongTokens<Value>(
        _ lookup: () async throws(BrokerProblem) -> Value
    ) async throws(BrokerProblem) -> Value {
        do throws(BrokerProblem) { return try await lookup() } catch {
            if error.code.isWrongToken { try takeWrongToken() }
            throw error
        }
    }

    private static func refusal(_ wait: Duration, _ what: String) -> BrokerProblem {
        BrokerProblem(.rateLimited, privateDetail: what, retryAfter: wait)
    }
}

extension ProblemCode {
    /// Whether the problem means that the caller may not use the presented secret.
    fileprivate var isWrongToken: Bool {
        switch self {
        case .sessionRequired, .stateMismatch, .loginNotYours, .codeAlreadyUsed, .handoffExpired, .handoverExpired,
            .stateKeyExpired, .backendUnauthorized:
            true
        default: false
        }
    }
}

/// An item that a caller without a session is charged for.
package enum ChargedItem: Sendable, CaseIterable {
    /// A started login, with its row and the provider's pushed authorization request.
    case login
    /// An exchange of the app's own login (flow B), with its row and its calls at the provider.
    case exchange
    /// A partial registration that waits for its attributes.
    case registration
    /// A hosted callback that waits for its app.
    case handoff
}
