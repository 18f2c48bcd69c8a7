/// The limits for one address, one customer's line (an IPv6 /56) and one network (an IPv6 /48).
package struct LimitShares: Sendable, Equatable {
    package let address: Int
    package let customer: Int
    package let network: Int

    package init(address: Int, customer: Int, network: Int) {
        self.address = address
        self.customer = customer
        self.network = network
    }

    /// Creates limits that are parts of a common cap, such as the cap on pending logins.
    ///
    /// A line may have four times as much as an address, but at most as much as a network. A network may have a quarter of the
    /// cap, but at least as much as an address.
    package init(address: Int, of cap: Int) {
        let network = max(cap / 4, address, 1)
        self.init(address: address, customer: min(Self.times(4, address), network), network: network)
    }

    /// Creates limits for one minute from the limit of an address.
    ///
    /// No common cap applies, so the limits of larger levels are generous. A line (a /56, which has 256 networks of size /64)
    /// may have eight times as much as an address. A network (a /48) may have a hundred times as much, because it may belong to
    /// a carrier that gives each phone a /64.
    package init(perMinute address: Int) {
        self.init(address: address, customer: Self.times(8, address), network: Self.times(100, address))
    }

    /// Returns the product, or the largest number on an overflow, because an operator may configure a very large limit.
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
