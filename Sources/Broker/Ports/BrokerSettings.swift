/// What the configuration says about the domain itself.
package struct BrokerSettings: Sendable {
    /// How long a login waits for its callback.
    package var loginLifetime: Duration = .seconds(600)
    package var loginLimits = LoginLimits()
    package var sessionsPerSubjectAndClient = 50
    /// Of a subject that is a shop: one more is refused, and nobody is signed out for it.
    package var sessionsPerShopAndClient = 1000
    /// How long the same starter gets the same session again.
    package var replayWindow: Duration = .seconds(600)
    /// How long an exchange's or refresh's claim stands unless its owner, who lives, renews it; longer than all the
    /// provider calls of one claim together.
    package var claimLifetime: Duration = .seconds(25)
    /// How long a caller waits for another's exchange or refresh.
    package var waiterPatience: Duration = .seconds(10)
    package var handoffLifetime: Duration = .seconds(60)
    /// How long a handoff's row outlives it when nobody redeemed it, for a forward that is under way.
    package var handoffSlack: Duration = .seconds(60)
    package var registrationLifetime: Duration = .seconds(900)
    /// Refresh this long before expiry, less up to 5 % jitter.
    package var refreshMargin: Duration = .seconds(60)
    /// Where the broker can be reached, for the addresses of proofs.
    package var proofOrigins = ProofOrigins()

    package init() {}
}
