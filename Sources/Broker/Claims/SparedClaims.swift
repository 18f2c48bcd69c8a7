/// The lapsed claims of exchanges that are left to their owners for now.
///
/// The store was away while they stood, as this process saw it, so an owner may have the provider's answer in hand and could not
/// renew its claim (decision 44). Any other claim that has lapsed is a dead owner's.
package struct SparedClaims: Sendable, Equatable {
    /// The times that may have passed since such a claim lapsed; nil where none is spared.
    package let lapsedFor: ClosedRange<Duration>?

    /// The time for which they are spared, from the store's return.
    static let period = Duration.seconds(60)

    package static let none = SparedClaims(lapsedFor: nil)

    package init(lapsedFor: ClosedRange<Duration>?) { self.lapsedFor = lapsedFor }

    /// Creates the claims of a lifetime that stood while the store was away: it went away `begun` ago, and came back, or failed for
    /// the last time, `ended` ago.
    init(lifetime: Duration, awaySince begun: Duration, backFor ended: Duration) {
        let earliest = max(.zero, ended - lifetime)
        lapsedFor = ended < Self.period && earliest <= begun ? earliest...begun : nil
    }

    /// Returns whether a claim is spared that lapsed so long ago.
    package func contains(lapsedFor duration: Duration) -> Bool { lapsedFor?.contains(duration) ?? false }
}

extension ExchangeRow {
    /// Whether its owner may still settle it: its claim stands, or is spared.
    func isOwned(_ spared: SparedClaims) -> Bool {
        outcome == .calling && (claimFor > .zero || spared.contains(lapsedFor: .zero - claimFor))
    }
}
