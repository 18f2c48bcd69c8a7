/// The limits of one address, and of all addresses together.
package struct ChargeLimits: Sendable {
    /// The largest number of started logins and exchanges together that an address may have in a minute.
    ///
    /// Hosted callbacks have the same limit, counted separately.
    package var loginsPerMinute: Int
    /// The largest number of unknown secrets of an address in a minute.
    package var wrongTokensPerMinute: Int
    /// The cap on pending logins.
    ///
    /// Registrations and handoffs each have the same cap.
    package var pending: Int

    package init(loginsPerMinute: Int = 60, wrongTokensPerMinute: Int = 60, pending: Int = 100_000) {
        self.loginsPerMinute = loginsPerMinute
        self.wrongTokensPerMinute = wrongTokensPerMinute
        self.pending = pending
    }

    /// The number of pending items that one address may have at a time: a fiftieth of the cap, but at least 64, and at most
    /// half of the cap.
    package var share: Int { max(1, min(max(pending / 50, 64), pending / 2)) }

    /// The numbers of pending items that an address, a customer's line and a network may have at a time.
    package var shares: LimitShares { LimitShares(address: share, of: pending) }

    /// The limits for exchanges in progress.
    ///
    /// Exchanges do not wait for a user. So the cap for one address is the whole cap, and only the rate of starts limits it.
    var exchangeShares: LimitShares {
        LimitShares(address: max(pending, 1), customer: shares.network, network: shares.network)
    }
}
