/// A provider whose clients may have an old system, which vouches for the sessions that it made before the move (`move_in`).
package protocol LegacyClaiming: ProviderClient {
    /// Asks the client's old system for the session of a legacy token.
    ///
    /// Throws `notSent`, `lost` or `retryable` if the old system's decision is missing. The same claim may then be repeated.
    func claim(_ claim: LegacyClaim, by deadline: Duration) async throws(ProviderFailure) -> LegacyAnswer
}
