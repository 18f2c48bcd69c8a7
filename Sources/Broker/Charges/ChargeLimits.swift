/// How much of everything one address may have, and everybody together.
package struct ChargeLimits: Sendable {
    /// Started logins and exchanges of an address, and its hosted callbacks, each in a minute.
    package var loginsPerMinute: Int
    /// Secrets of an address that were not found, in a minute.
    package var wrongTokensPerMinute: Int
    /// The cap on pending logins, on registrations and on handoffs, each.
    package var pending: Int

    package init(loginsPerMinute: Int = 60, wrongTokensPerMinute: Int = 60, pending: Int = 100_000) {
        self.loginsPerMinute = loginsPerMinute
        self.wrongTokensPerMinute = wrongTokensPerMinute
        self.pending = pending
    }

    /// What one address may have of a cap at a time: a fiftieth, at least 64, and never more than half of it.
    package var share: Int { max(1, min(max(pending / 50, 64), pending / 2)) }

    /// What an address, a line and a network may have of a cap at a time.
    package var shares: LimitShares { LimitShares(address: share, of: pending) }

    /// The same of the exchanges under way, which wait for nobody: an address has as many as it may begin in a minute.
    var exchangeShares: LimitShares {
        LimitShares(address: max(pending, 1), customer: shares.network, network: shares.network)
    }
}
