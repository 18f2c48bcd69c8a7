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

/// How much of something one address may have, one customer's line, and one network.
package struct LimitShares: Sendable, Equatable {
    package let address: Int
    package let customer: Int
    package let network: Int

    package init(address: Int, customer: Int, network: Int) {
        self.address = address
        self.customer = customer
        self.network = network
    }

    /// Divides a cap: a line has four times what an address has, and a network a quarter of all, or what an address has
    /// where a cap is so small that this is more.
    package init(address: Int, of cap: Int) {
        let network = max(cap / 4, address, 1)
        self.init(address: address, customer: min(Self.times(4, address), network), network: network)
    }

    /// Multiplies what an address may do in a minute.
    ///
    /// Nothing is shared here that one could take from another, so that these are wide: a line's 256 networks have eight
    /// times as much, and a carrier's pool, in which every phone has a network of its own, a hundred times.
    package init(perMinute address: Int) {
        self.init(address: address, customer: Self.times(8, address), network: Self.times(100, address))
    }

    /// What an operator sets may be as large as a number can be.
    private static func times(_ factor: Int, _ count: Int) -> Int {
        let (product, overflow) = count.multipliedReportingOverflow(by: factor)
        return overflow ? .max : product
    }

    package subscript(level: LimitLevel) -> Int {
        switch level {
        case .address: address
        case .customer: customer
        case .network: network
        }
    }
}
