/// The lapsed claims of exchanges that are left to their owners for now, because the store was unavailable.
///
/// If the store was unavailable during a claim, the owner could not renew the claim, and may have the provider's answer in
/// memory (decision 44). This process knows the store's outages from its own calls. The owner of any other lapsed claim
/// counts as dead.
package struct SparedClaims: Sendable, Equatable {
    /// A claim is spared if the time since its lapse is in this range.
    ///
    /// Nil means that no claims are spared.
    package let lapsedFor: ClosedRange<Duration>?

    /// The time after the store's return during which claims are spared.
    static let period = Duration.seconds(60)

    package static let none = SparedClaims(lapsedFor: nil)
    package static let all = SparedClaims(lapsedFor: .zero...SparedClaims.longest)

    /// A time that no claim exceeds, because exchanges are removed earlier.
    private static let longest = Duration.seconds(86_400 * 365)

    package init(lapsedFor: ClosedRange<Duration>?) { self.lapsedFor = lapsedFor }

    /// Creates the spared claims from a claim's lifetime and an outage of the store.
    ///
    /// The store became unavailable `begun` ago. It was available again, or failed for the last time, `ended` ago.
    init(lifetime: Duration, awaySince begun: Duration, backFor ended: Duration) {
        let earliest = max(.zero, ended - lifetime)
        lapsedFor = ended < Self.period && earliest <= begun ? earliest...begun : nil
    }

    /// Returns whether a claim is spared that lapsed this long ago.
    package func contains(lapsedFor duration: Duration) -> Bool { lapsedFor?.contains(duration) ?? false }
}

extension ExchangeRow {
    /// Whether the owner may still settle the exchange, because its claim lasts or is spared.
    func isOwned(_ spared: SparedClaims) -> Bool {
        outcome == .calling && (claimFor > .zero || spared.contains(lapsedFor: .zero - claimFor))
    }
}
