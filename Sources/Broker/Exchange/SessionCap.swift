/// The most sessions of one client that a shop may have, where sessions belong to devices (`own: device`): nobody is
/// signed out for one more, so the one more is refused.
struct SessionCap: Sendable {
    private let context: BrokerContext

    /// Creates the cap of a provider's sessions; nil where a new session ends the oldest instead.
    init?(_ profile: ProviderProfile, _ context: BrokerContext) {
        guard profile.own == .device else { return nil }
        self.context = context
    }

    /// Returns whether a session would be one too many, beside the one that it replaces.
    ///
    /// Logins at the same instant may pass it by as many as they are.
    func isReached(_ row: SessionRow, replacing: Digest?) async throws(StoreFailure) -> Bool {
        var after: SessionCursor?
        var count = 0
        while true {
            let page = try await context.store.sessions(
                .subject(row.subject), .live, after: after, limit: 500, now: context.clock.now())
            count += page.count { $0.subjectAndClient == row.subjectAndClient && $0.token != replacing }
            if count >= context.settings.sessionsPerShopAndClient { return true }
            guard page.count == 500, let last = page.last else { return false }
            after = SessionCursor(after: last)
        }
    }
}
