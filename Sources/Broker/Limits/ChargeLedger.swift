import Synchronization

/// The charges of all addresses and networks, which are token buckets and the shares of pending items.
///
/// The ledger is in the process's memory, and its size is bounded. A restart forgets all charges, and each replica has a
/// ledger of its own.
package final class ChargeLedger: Sendable {
    private struct State {
        var books: [ChargedItem: ChargeBook] = [:]
        /// The largest number of items of each kind that may be charged at a time.
        var capacity = 1
        /// The number of provider calls for a login or registration, by its key.
        var calls = PaidCounts(lifetime: .seconds(1800))
        /// The number of signatures that were verified for a login, exchange or registration, by its key.
        var signatures = PaidCounts(lifetime: .seconds(1800))
    }

    /// The number of provider calls that the charge of a login or registration pays for, even if they fail.
    static let paidCalls = 3
    /// The largest number of signature checks that the charge of a login, exchange or registration pays for.
    ///
    /// An app that repeats requests after lost answers needs several checks. When the session is made, the count is
    /// forgotten.
    static let paidSignatures = 16
    /// The time during which an exchange counts as paid.
    ///
    /// It is longer than the claim of an exchange lasts.
    static let exchangeLifetime = Duration.seconds(60)

    private let logins: TokenBuckets
    private let callbacks: TokenBuckets
    private let wrongTokens: TokenBuckets
    /// The charges for signature checks of sessions' proofs, each refunded if the signature is right.
    let signatureFaults: SignatureCharges
    private let monotonic: @Sendable () -> Duration
    /// Guards the charge books.
    ///
    /// Code that holds this lock takes only the locks of the token buckets.
    private let state: Mutex<State>

    /// Creates an empty ledger.
    package init(_ limits: ChargeLimits, monotonic: @escaping @Sendable () -> Duration) {
        self.monotonic = monotonic
        logins = TokenBuckets(perMinute: limits.loginsPerMinute, monotonic: monotonic)
        callbacks = TokenBuckets(perMinute: limits.loginsPerMinute, monotonic: monotonic)
        wrongTokens = TokenBuckets(perMinute: limits.wrongTokensPerMinute, monotonic: monotonic)
        signatureFaults = SignatureCharges(perMinute: limits.wrongTokensPerMinute, monotonic: monotonic)
        state = Mutex(State())
        adopt(limits)
    }

    /// Applies the new configuration's limits, and keeps the present charges.
    package func adopt(_ limits: ChargeLimits) {
        logins.adopt(perMinute: limits.loginsPerMinute)
        callbacks.adopt(perMinute: limits.loginsPerMinute)
        wrongTokens.adopt(perMinute: limits.wrongTokensPerMinute)
        signatureFaults.adopt(perMinute: limits.wrongTokensPerMinute)
        let pending = max(limits.pending, 1)
        state.withLock { state in
            state.capacity = pending
            for item in ChargedItem.allCases {
                // Burned logins stay in this book until they expire, but the store's cap counts only pending logins. So the
                // book needs more room.
                let capacity = item == .login ? 2 * pending : pending
                let shares = item == .exchange ? limits.exchangeShares : limits.shares
                state.books[item, default: ChargeBook(capacity: capacity, shares: shares)]
                    .adopt(capacity: capacity, shares: shares)
            }
        }
    }

    /// Charges an address for an item.
    ///
    /// Returns nil on success, and otherwise how long the address has to wait.
    ///
    /// An item that is already charged costs nothing more. If `payer` names a login or exchange, its charge pays for the
    /// item. The item then counts only towards the address's share of pending items.
    func take(
        _ item: ChargedItem, _ key: Digest, from address: IPAddress, lasting: Duration, payer: Digest?, isGuess: Bool
    ) -> Duration? {
        let now = monotonic()
        return state.withLock { state in
            guard var book = state.books.removeValue(forKey: item) else { return nil }
            defer { state.books[item] = book }
            book.expire(now: now)
            guard book.receipt(key) == nil else { return nil }
            guard book.refusal(address) == nil else { return .seconds(60) }
            if isGuess, let wait = wrongTokens.take(address) { return wait }
            let hasToken = payer == nil
            if hasToken, let wait = buckets(for: item).take(address) {
                if isGuess { wrongTokens.giveBack(address) }
                return wait
            }
            book.add(
                ChargeBook.Receipt(
                    address: address, until: now + lasting, hasToken: hasToken, isGuess: isGuess, payer: payer),
                for: key)
            return nil
        }
    }

    /// Stops counting an item towards the address's share, because the item's row was not made.
    ///
    /// The tokens from the buckets stay taken, because the cost has already arisen.
    func drop(_ item: ChargedItem, _ key: Digest) {
        state.withLock { state in _ = state.books[item]?.remove(key) }
    }

    /// Refunds all charges for the items that led to a new session.
    func giveBack(exchange: Digest, gate: ExchangeGate) {
        state.withLock { state in
            giveBack(.exchange, exchange, &state)
            state.signatures.forget(exchange)
            switch gate {
            case .none: break
            case .login(let login): giveBack(login: login, &state)
            case .registration(let key):
                if let payer = giveBack(.registration, key, &state)?.payer {
                    giveBack(login: payer, &state)
                    giveBack(.exchange, payer, &state)
                }
                state.calls.forget(key)
                state.signatures.forget(key)
            }
        }
    }

    private func giveBack(login: Digest, _ state: inout State) {
        giveBack(.login, login, &state)
        giveBack(.handoff, login, &state)
        state.calls.forget(login)
        state.signatures.forget(login)
    }

    @discardableResult
    private func giveBack(_ item: ChargedItem, _ key: Digest, _ state: inout State) -> ChargeBook.Receipt? {
        guard let receipt = state.books[item]?.remove(key) else { return nil }
        if receipt.hasToken { buckets(for: item).giveBack(receipt.address) }
        if receipt.isGuess { wrongTokens.giveBack(receipt.address) }
        return receipt
    }

    /// Returns the number of provider calls that a login or registration has made.
    func calls(of key: Digest) -> Int { state.withLock { $0.calls.count(of: key) } }

    /// Charges an address for a provider call.
    ///
    /// Returns nil on success, and otherwise how long the address has to wait.
    func takeCall(from address: IPAddress) -> Duration? { logins.take(address) }

    /// Counts a provider call, which is about to be made for a login or registration.
    func countCall(of key: Digest) {
        let now = monotonic()
        // If the table is full, the call stays uncounted. The charge of its login or registration has bounded such calls
        // already.
        _ = state.withLock { $0.calls.add(key, now: now, capacity: $0.capacity) }
    }

    /// Counts a signature that is about to be verified for a login, exchange or registration.
    ///
    /// A signature beyond the paid ones is charged to the address. Returns how long the address has to wait, or nil.
    func takeSignature(of key: Digest, from address: IPAddress) -> Duration? {
        let now = monotonic()
        let count = state.withLock { $0.signatures.add(key, now: now, capacity: $0.capacity) }
        if let count, count < Self.paidSignatures { return nil }
        return logins.take(address)
    }

    /// Charges an address for an unknown secret.
    ///
    /// Returns nil on success, and otherwise how long the address has to wait.
    func takeWrongToken(from address: IPAddress) -> Duration? { wrongTokens.take(address) }

    /// Refunds the charge for a guess that turned out right.
    func giveBackWrongToken(to address: IPAddress) { wrongTokens.giveBack(address) }

    /// Counts the items of a kind that an address is charged for.
    package func count(_ item: ChargedItem, of address: IPAddress) -> Int {
        let now = monotonic()
        return state.withLock { state in
            state.books[item]?.expire(now: now)
            return state.books[item]?.count(of: address) ?? 0
        }
    }

    private func buckets(for item: ChargedItem) -> TokenBuckets { item == .handoff ? callbacks : logins }
}

/// The charges in force for one kind of item, by the item's key, by address and by network.
///
/// The book is a value that the ledger's lock guards. `capacity` bounds its memory.
struct ChargeBook {
    /// The charge for one item: its cost, and the address that paid.
    struct Receipt {
        let address: IPAddress
        /// The time when the item's row expires, on the monotonic clock.
        let until: Duration
        /// Whether the charge took a token from the buckets.
        var hasToken = false
        /// Whether the item was a guess, which also costs a wrong token.
        var isGuess = false
        /// The login or exchange whose charge pays for the item.
        var payer: Digest?
    }

    /// The reason why an item was refused.
    enum Refusal: Equatable { case share, capacity }

    private var capacity: Int
    private var shares: LimitShares
    private var receipts: [Digest: Receipt] = [:]
    private var held: [LimitedNetwork: Int] = [:]
    /// The keys of the items, in the order of their expiry.
    ///
    /// All items of a kind have the same lifetime, so the order of expiry is the order of charging.
    private var order: [(until: Duration, key: Digest)] = []
    private var first = 0

    /// Creates an empty book for `capacity` items, with the shares of an address and its networks.
    init(capacity: Int, shares: LimitShares) {
        self.capacity = capacity
        self.shares = shares
    }

    /// Applies another capacity and other shares; items that were charged before stay.
    mutating func adopt(capacity: Int, shares: LimitShares) {
        self.capacity = capacity
        self.shares = shares
    }

    /// The number of charged items.
    var count: Int { receipts.count }

    /// The length of the list of expiries, which includes entries for removed items.
    var places: Int { order.count }

    /// Returns the number of items of an address.
    func count(of address: IPAddress) -> Int { address.limitedNetworks.first.map { held[$0] ?? 0 } ?? 0 }

    /// The number of addresses and networks that have charged items.
    var holders: Int { held.count }

    /// Returns the charge for an item; nil if it was not charged.
    func receipt(_ key: Digest) -> Receipt? { receipts[key] }

    /// Removes the charges for expired items.
    mutating func expire(now: Duration) {
        while first < order.count, order[first].until <= now {
            let key = order[first].key
            first += 1
            // The item may have been removed and charged again with a later expiry. Then keep the new charge.
            if let receipt = receipts[key], receipt.until <= now { remove(key) }
        }
        compact()
    }

    /// Returns the reason why an address may not have another item; nil if it may.
    func refusal(_ address: IPAddress) -> Refusal? {
        if address.limitedNetworks.contains(where: { held[$0] ?? 0 >= shares[$0.level] }) { return .share }
        return receipts.count >= capacity ? .capacity : nil
    }

    /// Adds the charge for an item.
    mutating func add(_ receipt: Receipt, for key: Digest) {
        receipts[key] = receipt
        for network in receipt.address.limitedNetworks { held[network, default: 0] += 1 }
        order.append((receipt.until, key))
        compact()
    }

    /// Removes the charge for an item and returns it.
    @discardableResult
    mutating func remove(_ key: Digest) -> Receipt? {
        guard let receipt = receipts.removeValue(forKey: key) else { return nil }
        for network in receipt.address.limitedNetworks {
            let left = (held[network] ?? 1) - 1
            held[network] = left > 0 ? left : nil
        }
        return receipt
    }

    /// Rebuilds the list of expiries when most of its entries belong to removed items.
    private mutating func compact() {
        guard order.count > 64, order.count > 2 * receipts.count else { return }
        order = order[first...].filter { receipts[$0.key]?.until == $0.until }
        first = 0
    }
}

/// Counts the provider calls or signature checks of each item, because the item's charge pays for some of them in advance.
///
/// The memory is bounded.
struct PaidCounts {
    /// The time that an item's key is remembered after its last count, which is longer than the item lives.
    private let lifetime: Duration
    private var counts: [Digest: (count: Int, until: Duration)] = [:]
    private var nextSweep = Duration.zero

    /// Creates an empty table.
    init(lifetime: Duration) { self.lifetime = lifetime }

    /// Returns how many times an item was counted.
    func count(of key: Digest) -> Int { counts[key]?.count ?? 0 }

    /// Counts an item once more.
    ///
    /// Returns the item's new number; nil if the table is full of other items.
    mutating func add(_ key: Digest, now: Duration, capacity: Int) -> Int? {
        if counts.count >= capacity, now >= nextSweep {
            nextSweep = now + .seconds(1)
            counts = counts.filter { now < $0.value.until }
        }
        let made = count(of: key)
        guard made > 0 || counts.count < capacity else { return nil }
        counts[key] = (made + 1, now + lifetime)
        return made + 1
    }

    /// Forgets an item's count.
    mutating func forget(_ key: Digest) { counts[key] = nil }
}
