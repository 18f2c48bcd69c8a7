/// What was charged for one kind of item and has neither come back nor lapsed, by the item's key, by address and by the
/// networks that addresses are in.
///
/// A value: the ledger's lock guards it. Its memory is bounded by `capacity`.
struct ChargeBook {
    /// What an item cost, and whom.
    struct Receipt {
        let address: IPAddress
        /// When the item's row expires, on the monotonic clock.
        let until: Duration
        /// Whether a token was taken for it.
        var hasToken = false
        /// Whether it was a guess, for which a wrong token was charged, too.
        var isGuess = false
        /// The login or exchange whose charge pays for it.
        var payer: Digest?
    }

    /// Why nothing was charged.
    enum Refusal: Equatable { case share, capacity }

    private var capacity: Int
    private var shares: LimitShares
    private var receipts: [Digest: Receipt] = [:]
    private var held: [LimitedNetwork: Int] = [:]
    /// The keys in the order of their expiry, which is that of their charging: all items of a kind live equally long.
    private var order: [(until: Duration, key: Digest)] = []
    private var first = 0

    /// Creates an empty book for `capacity` items, of which an address and its networks may have their shares.
    init(capacity: Int, shares: LimitShares) {
        self.capacity = capacity
        self.shares = shares
    }

    /// Goes on with other bounds; what is charged for stays so.
    mutating func adopt(capacity: Int, shares: LimitShares) {
        self.capacity = capacity
        self.shares = shares
    }

    /// The items that are charged for.
    var count: Int { receipts.count }

    /// How many places the order of expiry takes.
    var places: Int { order.count }

    /// Returns how many items an address has.
    func count(of address: IPAddress) -> Int { address.limitedNetworks.first.map { held[$0] ?? 0 } ?? 0 }

    /// How many addresses and networks have items.
    var holders: Int { held.count }

    /// Returns what was charged for an item.
    func receipt(_ key: Digest) -> Receipt? { receipts[key] }

    /// Forgets what has expired.
    mutating func expire(now: Duration) {
        while first < order.count, order[first].until <= now {
            let key = order[first].key
            first += 1
            // A key may have been charged for anew since.
            if let receipt = receipts[key], receipt.until <= now { remove(key) }
        }
        compact()
    }

    /// Returns why an address may have no further item, or nil when it may.
    func refusal(_ address: IPAddress) -> Refusal? {
        if address.limitedNetworks.contains(where: { held[$0] ?? 0 >= shares[$0.level] }) { return .share }
        return receipts.count >= capacity ? .capacity : nil
    }

    /// Enters a receipt.
    mutating func add(_ receipt: Receipt, for key: Digest) {
        receipts[key] = receipt
        for network in receipt.address.limitedNetworks { held[network, default: 0] += 1 }
        order.append((receipt.until, key))
        compact()
    }

    /// Takes a receipt out and returns it.
    @discardableResult
    mutating func remove(_ key: Digest) -> Receipt? {
        guard let receipt = receipts.removeValue(forKey: key) else { return nil }
        for network in receipt.address.limitedNetworks {
            let left = (held[network] ?? 1) - 1
            held[network] = left > 0 ? left : nil
        }
        return receipt
    }

    /// Items that came back leave their place in the order: it is made anew when most of it is such places.
    private mutating func compact() {
        guard order.count > 64, order.count > 2 * receipts.count else { return }
        order = order[first...].filter { receipts[$0.key]?.until == $0.until }
        first = 0
    }
}
