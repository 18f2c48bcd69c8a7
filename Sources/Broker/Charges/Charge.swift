/// The caller whom a request's costs are charged to: an address, with its buckets and shares behind it.
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

    /// The payer of the checks of the caller's proofs for a session.
    package var ofProofs: ProofCharge {
        guard let ledger, let address else { return .nobody }
        return ProofCharge(address, in: ledger)
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

    /// Takes what a child session costs, as a started login does; throws `rate_limited` when the caller has used up what is
    /// theirs.
    func takeChild() throws(BrokerProblem) {
        guard let ledger, let address, let wait = ledger.takeCall(from: address) else { return }
        throw Self.refusal(wait, "child sessions")
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
        case .sessionRequired, .stateMismatch, .loginNotYours, .codeAlreadyUsed, .handoffExpired, .handoverExpired,
            .stateKeyExpired, .backendUnauthorized:
            true
        default: false
        }
    }
}

/// A thing that a caller without a session is charged for.
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

/// The limits of one address, and of everybody together.
package struct ChargeLimits: Sendable {
    /// Started logins and exchanges of an address, and its hosted callbacks, each in a minute.
    package var loginsPerMinute: Int
    /// Secrets of an address that were not found, in a minute.
    package var wrongTokensPerMinute: Int
    /// The cap on pending logins, on registrations and on handoffs, each.
    package var pending: Int

    package init(loginsPerMinute: Int = 60, wrongTokensPerMinute: Int = 60, pending: Int = 100_000) {
        self.loginsPerMinute = loginsPerMinute
        self.wrongTokensPerMinute = wrongTokensPerMinute
        self.pending = pending
    }

    /// One address's share of a cap at a time: a fiftieth, at least 64, and never more than half of it.
    package var share: Int { max(1, min(max(pending / 50, 64), pending / 2)) }

    /// The shares of an address, a line and a network in a cap at a time.
    package var shares: LimitShares { LimitShares(address: share, of: pending) }

    /// The same of the exchanges under way, which wait for nobody: an address has as many as it may begin in a minute.
    var exchangeShares: LimitShares {
        LimitShares(address: max(pending, 1), customer: shares.network, network: shares.network)
    }
}

/// The most of something that one address may have, one customer's line, and one network.
package struct LimitShares: Sendable, Equatable {
    package let address: Int
    package let customer: Int
    package let network: Int

    package init(address: Int, customer: Int, network: Int) {
        self.address = address
        self.customer = customer
        self.network = network
    }

    /// Divides a cap: a line has four times what an address has, and a network a quarter of all, or what an address has
    /// where a cap is so small that this is more.
    package init(address: Int, of cap: Int) {
        let network = max(cap / 4, address, 1)
        self.init(address: address, customer: min(Self.times(4, address), network), network: network)
    }

    /// Multiplies what an address may do in a minute.
    ///
    /// Nothing is shared here that one could take from another, so that these are wide: a line's 256 networks have eight
    /// times as much, and a carrier's pool, in which every phone has a network of its own, a hundred times.
    package init(perMinute address: Int) {
        self.init(address: address, customer: Self.times(8, address), network: Self.times(100, address))
    }

    /// Multiplies, the largest number in place of an overflow: an operator may set as large a number as there is.
    private static func times(_ factor: Int, _ count: Int) -> Int {
        let (product, overflow) = count.multipliedReportingOverflow(by: factor)
        return overflow ? .max : product
    }

    package subscript(level: LimitLevel) -> Int {
        switch level {
        case .address: address
        case .customer: customer
        case .network: network
        }
    }
}
