/// Charges an exchange before its row is made and its provider called.
struct ExchangeCharge: Sendable {
    let context: BrokerContext

    /// Takes what the exchange costs.
    ///
    /// A login or registration has paid for its own; repeating an exchange that stands makes nothing and costs nothing.
    func take(_ key: Digest, _ gate: ExchangeGate, _ charge: Charge) async throws(BrokerProblem) {
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
        if paying != nil {
            try charge.takeFurtherCall()
        } else {
            try charge.take(.exchange, for: key, lasting: ChargeLedger.exchangeLifetime)
        }
    }

    /// Counts the call that is about to be made against what its login or registration has paid for.
    func count(_ gate: ExchangeGate, _ charge: Charge) {
        switch gate {
        case .none: break
        case .login(let key), .registration(let key): charge.countCall(of: key)
        }
    }
}
