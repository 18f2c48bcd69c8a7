/// One exchange to run: what is claimed, for whom, and which provider call it stands for.
struct ExchangePlan: Sendable {
    /// The call that is made at most once.
    enum Call: Sendable {
        /// Redeem a code (flows A, B and C, native codes).
        case code(CodeGrant, IdentityContext)
        /// Ask whose a Zephr session is, and take it over.
        case zephrSession(Secret)
        /// Keep a Zephr partial registration for its starter.
        case zephrPartial(stateKey: Secret, identifier: String?)
        /// Complete a registration.
        case register(RegistrationRequest)
        /// Take over tokens that the app already holds.
        case importTokens(ImportedTokens)
        /// Make a session of an id_token that has verified; nil when its exchange stood already, and was not looked at.
        case idToken(ProviderIdentity?)
    }

    var key: Digest
    /// The starter's secret; nil when the forward brought none, and then nothing can be replayed.
    var proof: Secret?
    var gate: ExchangeGate
    var provider: any ProviderClient
    var client: ClientProfile
    var call: Call
    var device: String?
    /// The device's old session, which the new one replaces.
    var presentedSession: Secret?
    /// The login token that came along, for a login that takes this one's place.
    var loginToken: Secret?
    var charge: Charge
    /// The key that the session will belong to.
    var binding: SignInKey
}

/// A claimed exchange in its owner's hands.
struct GrantedExchange: Sendable {
    /// All provider calls of one exchange end within this.
    static let callBudget = Duration.seconds(20)

    let plan: ExchangePlan
    let row: ExchangeRow
    let claim: ClaimShell<ClaimedExchange>
    /// When its calls have to be over.
    let deadline: Duration
    /// The time as it was when the claim was granted.
    let time = BelievedTime()

    init(_ plan: ExchangePlan, _ row: ExchangeRow, _ claim: ClaimShell<ClaimedExchange>) {
        self.plan = plan
        self.row = row
        self.claim = claim
        let context = claim.context
        let moment = context.clock.monotonic()
        deadline = moment + Self.callBudget
        time.note(context.clock.now(), moment)
        // A claim that was asked for twice is older than its answer.
        claim.held.take(row.fence, at: moment - max(context.settings.claimLifetime - row.claimFor, .zero))
    }
}

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
