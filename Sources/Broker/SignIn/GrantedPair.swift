/// The tokens that a provider has granted to an import whose user is still to be read.
struct GrantedPair: Sendable {
    /// The shortest time between two refreshes of one import's tokens.
    private static let rest = Duration.seconds(60)

    let tokens: TokenSet
    /// The time when the tokens were kept; nil if this claim got them from the provider.
    var keptSince: WallTime?

    /// Returns the same tokens, marked with the number of calls that may have spent their refresh token.
    ///
    /// The tokens are kept with the mark before each call. If the answer is lost, or the process dies, the next post then begins
    /// with the confirming call. Otherwise it could make a session with a refresh token that is spent.
    ///
    /// The mark is an end of the access token in 1970, so the broker treats a marked access token as expired.
    func marked(calls: Int) -> TokenSet {
        guard calls > 0 else { return tokens }
        var tokens = tokens
        tokens.expiresAt = WallTime(seconds: Int64(calls))
        return tokens
    }

    /// The number of calls that may have spent the refresh token.
    var calls: Int { (1...ImportMarks.maximumCalls).first { tokens.expiresAt == WallTime(seconds: Int64($0)) } ?? 0 }

    /// Throws if kept tokens have expired, as if the API had refused them.
    func checkAge(at now: WallTime) throws(ProviderFailure) {
        guard keptSince != nil, isExpired(at: now) else { return }
        throw .identityRejected(detail: "the kept access token has expired", refusesToken: true)
    }

    /// Returns the refresh token to send after a failed read of the user; nil if a refresh would be useless.
    ///
    /// An app's old SDK may have sent the spent refresh token at the same moment. Some providers then end the whole grant. Only
    /// a refused refresh with the new token shows this. If the provider left the refresh token unchanged, such a refresh would be
    /// useless, because the provider tolerates repeated tokens.
    ///
    /// An API may refuse every token. So tokens that were kept a moment ago have a rest.
    func tokenToRefresh(after failure: ProviderFailure, _ imported: ImportedTokens, at now: WallTime) -> Secret? {
        guard case .identityRejected(_, refusesToken: true) = failure, let token = tokens.refreshToken else {
            return nil
        }
        if isExpired(at: now) { return token }
        if let keptSince, now.since(keptSince) < Self.rest { return nil }
        return token.reveal() == imported.refreshToken?.reveal() ? nil : token
    }

    /// A mark counts at any time, because a machine may start with its clock at 1970.
    private func isExpired(at now: WallTime) -> Bool { calls > 0 || tokens.expiresAt.map { $0 <= now } ?? false }
}
