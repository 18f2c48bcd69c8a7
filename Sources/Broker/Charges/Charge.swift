/// Whom a request's costs are charged to: the caller's address, with its buckets and shares behind it.
///
/// It comes with the input of a use case, and is taken where the cost arises: before a row is made, a provider called or
/// a login started.
package struct Charge: Sendable {
    private let ledger: ChargeLedger?
    private let address: IPAddress?

    /// The charge of a caller whom no limit concerns.
    package static let nobody = Charge(ledger: nil, address: nil)

    private init(ledger: ChargeLedger?, address: IPAddress?) {
        self.ledger = ledger
        self.address = address
    }

    /// Creates the charge of a caller; without an address nothing is taken, and what others were charged still comes
    /// back to them.
    package init(_ address: IPAddress?, in ledger: ChargeLedger) {
        self.init(ledger: ledger, address: address)
    }

    /// Takes what an item costs; throws `rate_limited` when the caller has used up what is theirs.
    ///
    /// An item that is charged for already costs nothing more. `payer` names the login or exchange whose own charge
    /// pays, so that only the share is taken; a guess takes a wrong token, too.
    func take(
        _ item: ChargedItem, for key: Digest, lasting: Duration, paidBy payer: Digest? = nil, isGuess: Bool = false
    ) throws(BrokerProblem) {
        guard let ledger, let address else { return }
        let wait = ledger.take(item, key, from: address, lasting: lasting, payer: payer, isGuess: isGuess)
        if let wait { throw Self.refusal(wait, "\(item)") }
    }

    /// Gives the share of an item back whose row was not made after all.
    func drop(_ item: ChargedItem, for key: Digest) { ledger?.drop(item, key) }

    /// Gives back, to whoever was charged, what led to a new session.
    func sessionMade(exchange: Digest, gate: ExchangeGate) { ledger?.giveBack(exchange: exchange, gate: gate) }

    /// Whether the next call of a login or registration is one that its own charge has paid for.
    func hasPaidCall(of key: Digest) -> Bool {
        guard let ledger, address != nil else { return true }
        return ledger.calls(of: key) < ChargeLedger.paidCalls
    }

    /// Takes what a call costs that no login's or registration's own charge pays for any more.
    func takeFurtherCall() throws(BrokerProblem) {
        guard let ledger, let address, let wait = ledger.takeCall(from: address) else { return }
        throw Self.refusal(wait, "calls")
    }

    /// Counts a call of a login or registration that is about to be made.
    func countCall(of key: Digest) { ledger?.countCall(of: key) }

    /// Takes what it costs to verify a proof's signature, beyond those that the login, exchange or registration of this key has
    /// paid for.
    func takeSignature(of key: Digest) throws(BrokerProblem) {
        guard let ledger, let address, let wait = ledger.takeSignature(of: key, from: address) else { return }
        throw Self.refusal(wait, "signatures of proofs")
    }

    /// Takes what a secret costs that was not found; throws `rate_limited` when the caller tried too many (SEC-121).
    package func takeWrongToken() throws(BrokerProblem) {
        guard let ledger, let address, let wait = ledger.takeWrongToken(from: address) else { return }
        throw Self.refusal(wait, "wrong tokens")
    }

    /// Gives back what a guess cost that turned out right.
    func giveBackWrongToken() {
        guard let ledger, let address else { return }
        ledger.giveBackWrongToken(to: address)
    }

    /// Runs a lookup by a secret; one that finds nothing is charged afterwards, so that a known token never waits.
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
    /// Whether it says that a presented secret is none that the caller may use.
    fileprivate var isWrongToken: Bool {
        switch self {
        case .sessionRequired, .stateMismatch, .loginNotYours, .codeAlreadyUsed, .handoffExpired, .stateKeyExpired,
            .backendUnauthorized:
            true
        default: false
        }
    }
}

/// What a caller without a session is charged for.
package enum ChargedItem: Sendable, CaseIterable {
    /// A started login: its row, and the provider's pushed authorization request.
    case login
    /// An exchange that no login of the broker's began (flow B): its row and its calls at the provider.
    case exchange
    /// A partial registration that waits for its attributes.
    case registration
    /// A hosted callback that waits for its app.
    case handoff
}
