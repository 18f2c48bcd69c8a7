/// Says when an access token is due: a minute before its end with up to 5 % jitter by session, so that sessions of one
/// moment do not refresh in one moment; a token that lives less than ten minutes is due in the last tenth of its life.
///
/// A token that was stored in the future was stored by a replica whose clock was wrong, and so is its end: it is due.
enum RefreshTiming {
    /// How far the clocks of replicas may part.
    private static let tolerance = Duration.seconds(60)

    static func isFresh(_ access: AccessToken, _ session: Digest, margin: Duration, at now: WallTime) -> Bool {
        guard let end = access.expiresAt else { return true }
        guard access.issuedAt.since(now) <= tolerance else { return false }
        let jitter = Double(session.bytes.first ?? 0) / 255 * 0.05
        let due = min(margin * (1 + jitter), max(.zero, end.since(access.issuedAt)) / 10)
        return end.since(now) > due
    }

    static func isUsable(_ access: AccessToken, at now: WallTime) -> Bool {
        access.expiresAt.map { now.advanced(by: .seconds(1)) < $0 } ?? true
    }
}
