/// The limit on the sessions of one subject with one client, if each device owns only its session (`own: device`).
///
/// The subject is then a shop (a merchant of Clover), which all its devices share.
///
/// A further session is refused. Ending the oldest session instead would sign out another device.
struct SessionCap: Sendable {
    private let context: BrokerContext

    /// Creates the limit for a provider's sessions; nil if a new session ends the oldest one instead.
    init?(_ profile: ProviderProfile, _ context: BrokerContext) {
        guard profile.own == .device else { return nil }
        self.context = context
    }

    /// Returns whether a new session would exceed the limit.
    ///
    /// The session that the new one replaces is left out of the count. Logins that check the limit at the same time may each add
    /// a session beyond it.
    func isReached(_ row: SessionRow, replacing: Digest?) async throws(StoreFailure) -> Bool {
        var after: SessionCursor?
        var count = 0
        while true {
            let page = try await context.store.sessions(
                .subject(row.subject), .live, after: after, limit: 500, now: context.lapseTime)
            count += page.count { $0.subjectAndClient == row.subjectAndClient && $0.tokenDigest != replacing }
            if count >= context.settings.sessionsPerShopAndClient { return true }
            guard page.count == 500, let last = page.last else { return false }
            after = SessionCursor(after: last)
        }
    }
}
