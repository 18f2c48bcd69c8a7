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

    /// Creates the limits for shares of a common cap.
    ///
    /// A line may have four times as much as an address. A network may have a quarter of the cap, but at least as much as an
    /// address.
    package init(address: Int, of cap: Int) {
        let network = max(cap / 4, address, 1)
        self.init(address: address, customer: min(Self.times(4, address), network), network: network)
    }

    /// Creates limits for a minute from an address's limit.
    ///
    /// These limits are generous, because callers do not compete for a common cap. A customer's line (a /56, which has 256
    /// networks of size /64) may have eight times as much as an address. A network (a /48) may have a hundred times as much.
    /// It may belong to a carrier, and each phone of the carrier has a /64 of its own.
    package init(perMinute address: Int) {
        self.init(address: address, customer: Self.times(8, address), network: Self.times(100, address))
    }

    /// Multiplies, and returns the largest number on an overflow, because an operator may set a very large limit.
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
