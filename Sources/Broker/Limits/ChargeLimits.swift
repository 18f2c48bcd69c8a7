/// The limits for one address, and for all addresses together.
package struct ChargeLimits: Sendable {
    /// The number of logins and exchanges together that one address may start in a minute.
    ///
    /// Hosted callbacks have the same limit, but are counted separately.
    package var loginsPerMinute: Int
    /// The number of imports that one address may begin in a minute, for clients with `per_minute`; 0 if every client lacks it.
    ///
    /// Many phones of one school or mobile network may share an address, and move in one hour.
    package var importsPerMinute = 0
    /// The number of unknown secrets that one address may present in a minute.
    package var wrongTokensPerMinute: Int
    /// The largest number of pending logins of all addresses together.
    ///
    /// Registrations and handoffs each have a limit of the same size.
    package var pending: Int

    package init(loginsPerMinute: Int = 60, wrongTokensPerMinute: Int = 60, pending: Int = 100_000) {
        self.loginsPerMinute = loginsPerMinute
        self.wrongTokensPerMinute = wrongTokensPerMinute
        self.pending = pending
    }

    /// The number of pending items that one address may have at a time: a fiftieth of the cap, but at least 64, and at most
    /// half of the cap.
    package var share: Int { max(1, min(max(pending / 50, 64), pending / 2)) }

    /// The numbers of pending items that an address, a line and a network may have at a time.
    package var shares: LimitShares { LimitShares(address: share, of: pending) }

    /// The numbers of exchanges that may be in progress for an address, a line and a network.
    ///
    /// An exchange does not wait for a user, so it ends soon. Therefore one address may have as many as `pending` allows, and
    /// in practice only `loginsPerMinute` limits it.
    var exchangeShares: LimitShares {
        LimitShares(address: max(pending, 1), customer: shares.network, network: shares.network)
    }
}
