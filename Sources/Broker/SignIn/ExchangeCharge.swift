/// Charges an exchange before its row is made and the provider is called.
struct ExchangeCharge: Sendable {
    let context: BrokerContext

    /// Charges the cost of the exchange.
    ///
    /// A login or registration has already paid for the first calls of its own exchange. Repeating the outcome of an existing
    /// exchange is free.
    ///
    /// A legacy token that is a guess costs the old system a question. So an address that presented too many of them is refused
    /// before a row is made.
    func take(
        _ key: Digest, _ gate: ExchangeGate, _ charge: Charge, isLegacy: Bool = false, pace: ChargePace = .logins
    ) async throws(BrokerProblem) {
        let paying: Digest?
        switch gate {
        case .none: paying = nil
        case .login(let login): paying = login
        case .registration(let registration): paying = registration
        }
        if let paying, charge.hasPaidCall(of: paying) { return }
        let standing: ExchangeRow?
        do throws(StoreFailure) { standing = try await context.store.exchange(key) } catch {
            throw BrokerProblem(error)
        }
        if let standing, standing.outcome != .released { return }
        if isLegacy { try charge.requireLegacy() }
        if paying != nil {
            try charge.takeFurtherCall()
        } else {
            try charge.take(.exchange, for: key, lasting: ChargeLedger.exchangeLifetime, pace: pace)
        }
    }

    /// Counts one provider call for the login or registration that is the gate.
    ///
    /// The charge of a login or registration covers its first calls.
    func count(_ gate: ExchangeGate, _ charge: Charge) {
        switch gate {
        case .none: break
        case .login(let key), .registration(let key): charge.countCall(of: key)
        }
    }
}
