/// The address that the costs of a request are charged to, with its limits.
///
/// A use case receives the charge with its input. The use case takes each cost before the cost arises, for example before a row
/// is made or a provider is called.
package struct Charge: Sendable {
    private let ledger: ChargeLedger?
    private let address: IPAddress?

    /// The charge for a caller without limits: its requests cost nothing.
    package static let nobody = Charge(ledger: nil, address: nil)

    /// The charge for checking the proofs of the caller's session.
    package var ofProofs: ProofCharge {
        guard let ledger, let address else { return .nobody }
        return ProofCharge(address, in: ledger)
    }

    /// Charges the address for an item, for example for a pending login; throws `rate_limited` if the address has reached a
    /// limit.
    ///
    /// An item that is already charged costs nothing more. If `payer` names a login or exchange, its charge includes the new
    /// item, which then only counts towards the address's share of pending items. If the presented secret may be a guess
    /// (`isGuess`), the address is also charged for a wrong token.
    func take(
        _ item: ChargedItem, for key: Digest, lasting: Duration, paidBy payer: Digest? = nil, isGuess: Bool = false,
        pace: ChargePace = .logins
    ) throws(BrokerProblem) {
        guard let ledger, let address else { return }
        let wait = ledger.take(
            item, key, from: address, lasting: lasting, payer: payer, isGuess: isGuess, pace: pace)
        if let wait { throw Self.refusal(wait, "\(item)") }
    }

    /// Removes an item whose row was not made, so that it no longer counts towards the address's share of pending items.
    func drop(_ item: ChargedItem, for key: Digest) { ledger?.drop(item, key) }

    /// Refunds the charges for the items that led to a new session or a step-up, to the addresses that paid them.
    func sessionMade(exchange: Digest, gate: ExchangeGate) { ledger?.giveBack(exchange: exchange, gate: gate) }

    /// Whether the charge for a login or registration includes one more provider call.
    func hasPaidCall(of key: Digest) -> Bool {
        guard let ledger, address != nil else { return true }
        return ledger.calls(of: key) < ChargeLedger.paidCalls
    }

    /// Charges the address for a provider call, because the charge for the login or registration includes no more calls.
    func takeFurtherCall() throws(BrokerProblem) {
        guard let ledger, let address, let wait = ledger.takeCall(from: address) else { return }
        throw Self.refusal(wait, "calls")
    }

    /// Charges the address for a child session, as much as for a started login; throws `rate_limited` if the address has
    /// reached its limit.
    func takeChild() throws(BrokerProblem) {
        guard let ledger, let address, let wait = ledger.takeCall(from: address) else { return }
        throw Self.refusal(wait, "child sessions")
    }

    /// Counts a provider call that the broker is about to make for a login or registration.
    func countCall(of key: Digest) { ledger?.countCall(of: key) }

    /// Charges the address for verifying a proof's signature, unless the charge for the login, exchange or registration
    /// includes this check.
    func takeSignature(of key: Digest) throws(BrokerProblem) {
        guard let ledger, let address, let wait = ledger.takeSignature(of: key, from: address) else { return }
        throw Self.refusal(wait, "signatures of proofs")
    }

    /// Charges the address for an unknown secret; throws `rate_limited` if the address presented too many (SEC-121).
    package func takeWrongToken() throws(BrokerProblem) {
        guard let ledger, let address, let wait = ledger.takeWrongToken(from: address) else { return }
        throw Self.refusal(wait, "wrong tokens")
    }

    /// Throws `rate_limited` if the address has presented too many legacy tokens that the old system refused.
    func requireLegacy() throws(BrokerProblem) {
        guard let ledger, let address, let wait = ledger.waitForLegacy(from: address) else { return }
        throw Self.refusal(wait, "refused legacy tokens")
    }

    /// Charges the address for a legacy token that the old system has refused.
    func noteRefusedLegacy() {
        guard let ledger, let address else { return }
        ledger.noteRefusedLegacy(from: address)
    }

    /// Refunds the charge for a presented secret that turned out to be right.
    func giveBackWrongToken() {
        guard let ledger, let address else { return }
        ledger.giveBackWrongToken(to: address)
    }

    /// Looks up a row by a secret.
    ///
    /// If the secret is unknown, the address is charged for a wrong token.
    ///
    /// The charge comes after the lookup, so a caller with a known secret is never limited (SEC-121).
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

extension Charge {
    /// Creates the charge for a caller's address.
    ///
    /// If the address is nil, the caller pays nothing, but the charges of other addresses can still be refunded.
    package init(_ address: IPAddress?, in ledger: ChargeLedger) {
        self.init(ledger: ledger, address: address)
    }
}

extension ProblemCode {
    /// Whether the problem means that the presented secret is unknown, or that the caller may not use it.
    fileprivate var isWrongToken: Bool {
        switch self {
        case .sessionRequired, .stateMismatch, .loginNotYours, .codeAlreadyUsed, .handoffExpired, .handoverExpired,
            .stateKeyExpired, .backendUnauthorized:
            true
        default: false
        }
    }
}

/// A kind of item that the broker charges an address for, although the caller has no session yet.
package enum ChargedItem: Sendable, CaseIterable {
    /// A started login, with its row and the provider's pushed authorization request.
    case login
    /// An exchange of the app's own login (flow B), with its row and its calls at the provider.
    case exchange
    /// A registration that waits for the attributes that the provider still needs.
    case registration
    /// A handoff from the hosted callback (flow C), which waits for its app.
    case handoff
}
