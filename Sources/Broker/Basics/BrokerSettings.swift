/// The settings of the module `Broker`.
package struct BrokerSettings: Sendable {
    /// The lifetime of a login that waits for its callback.
    package var loginLifetime: Duration = .seconds(600)
    package var loginLimits = LoginLimits()
    package var sessionsPerSubjectAndClient = 50
    /// The largest number of sessions of a shop (a subject with `own: device`) with one client.
    ///
    /// A further session is refused, so that all devices stay signed in.
    package var sessionsPerShopAndClient = 1000
    /// The time during which a settled exchange gives the same starter the same session again.
    package var replayWindow: Duration = .seconds(600)
    /// The lifetime of a claim of an exchange or refresh; a living owner renews the claim.
    ///
    /// The lifetime must be longer than all provider calls of one claim together.
    package var claimLifetime: Duration = .seconds(25)
    /// The longest time that a caller waits for another caller's exchange or refresh.
    package var waiterPatience: Duration = .seconds(10)
    package var handoffLifetime: Duration = .seconds(60)
    /// The time that the row of an unused handoff is kept after the handoff's expiry, because a forward may still be in progress.
    package var handoffSlack: Duration = .seconds(60)
    package var registrationLifetime: Duration = .seconds(900)
    /// The time before an access token's expiry at which the broker refreshes the token (`RefreshTiming`).
    ///
    /// Each session adds up to 5 % of this time, so that the refreshes of many sessions are spread.
    package var refreshMargin: Duration = .seconds(60)
    /// The shortest time between two forced refreshes of the same access token, which an upstream's 401 or the app asks for
    /// (`ForcedRefreshes`).
    package var forcedRefreshPause: Duration = .seconds(60)
    /// The origins of the broker's own addresses, for checking the addresses in proofs.
    package var proofOrigins = ProofOrigins()

    package init() {}
}
