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
