/// Says when an access token is due: a minute before its end with up to 5 % jitter by session, so that sessions of one
/// moment do not refresh in one moment; a token that lives less than ten minutes is due in the last tenth of its life.
///
/// A token that was stored in the future was stored by a replica whose clock was wrong, and so is its end: it is due.
enum RefreshTiming {
    /// How far the clocks of replicas may part.
    private static let tolerance = Duration.seconds(60)

    static func isFresh(_ stored: StoredTokens, _ token: Digest, margin: Duration, at now: WallTime) -> Bool {
        guard let end = stored.tokens.expiresAt else { return true }
        guard stored.issuedAt.since(now) <= tolerance else { return false }
        let jitter = Double(token.bytes.first ?? 0) / 255 * 0.05
        let due = min(margin * (1 + jitter), max(.zero, end.since(stored.issuedAt)) / 10)
        return end.since(now) > due
    }

    static func isUsable(_ stored: StoredTokens, at now: WallTime) -> Bool {
        stored.tokens.expiresAt.map { now.advanced(by: .seconds(1)) < $0 } ?? true
    }
}
