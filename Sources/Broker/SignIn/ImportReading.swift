/// Reads the meaning of a failed import call, according to the table of imports (docs/guarantees.md).
///
/// The rules are pure, and each has a row in the tests' table.
struct ImportReading: Sendable {
    /// The result of a failed call for the import's row.
    enum Fate: Sendable, Equatable {
        /// The token is unused as far as the broker knows, so the same post may be repeated as often as needed.
        case released
        /// Like `released`, but the refusal may mean a dead grant, and is counted.
        case counted
        /// The provider may have spent the token, and the confirming call is still to come.
        case lost
        /// The import is spent.
        case spent(ExchangeRow.SpentReason)
    }

    /// The number of counted refusals that mean a dead grant, and the shortest time that they span (decision 50).
    static let countedRefusals = 3
    static let countedPeriod = Duration.seconds(300)

    /// Whether this is the one call after a lost answer.
    let isConfirming: Bool
    /// Whether this refusal, if it is counted, is enough to end the import.
    let isEnough: Bool

    func fate(of failure: ProviderFailure) -> Fate {
        switch failure {
        case .notSent, .retryable, .unusable, .identityRejected: .released
        case .lost: isConfirming ? .spent(.refreshLost) : .lost
        case .rejected(let refusal): fate(of: refusal)
        }
    }

    private func fate(of refusal: OAuthError) -> Fate {
        let end = ExchangeRow.SpentReason.grantRevoked
        // Keep this order. A refusal with a `doubt` may concern the proof or the certificate, so the grant may live.
        if refusal.mayMeanDeadGrant { return isEnough ? .spent(isConfirming ? .refreshLost : end) : .counted }
        guard refusal.isInvalidGrant, !refusal.isAboutProof else { return .released }
        return .spent(isConfirming ? .refreshLost : end)
    }
}
