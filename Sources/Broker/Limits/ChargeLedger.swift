import Synchronization

/// The costs that this process has counted for addresses and networks: token buckets for rates, and books of pending items.
///
/// The ledger is in the process's memory, and its size is bounded. It is empty after a restart, and each replica has a ledger
/// of its own.
package final class ChargeLedger: Sendable {
    private struct State {
        var books: [ChargedItem: ChargeBook] = [:]
        /// The largest number of items of one kind, for example pending logins, that may be charged at a time.
        var capacity = 1
        /// The number of provider calls for each login or registration.
        var calls = PaidCounts(lifetime: .seconds(1800))
        /// The number of signature checks for each login, exchange or registration.
        var signatures = PaidCounts(lifetime: .seconds(1800))
    }

    /// The number of provider calls that the charge for a login or registration includes, even if the calls fail.
    static let paidCalls = 3
    /// The number of signature checks that the charge for a login, exchange or registration includes.
    ///
    /// An app that repeats requests after lost answers needs several checks. The ledger forgets the number as soon as a session
    /// is made.
    static let paidSignatures = 16
    /// The time that the charge for an exchange stays in the book.
    ///
    /// A claim of an exchange ends earlier.
    static let exchangeLifetime = Duration.seconds(60)
    /// The number of refused legacy tokens that one address may present in a minute.
    static let refusedLegacyPerMinute = 30

    private let logins: TokenBuckets
    /// The imports of clients that have a limit of their own.
    private let imports: TokenBuckets
    private let callbacks: TokenBuckets
    private let wrongTokens: TokenBuckets
    private let refusedLegacy: TokenBuckets
    /// The charges for checking the signatures of sessions' proofs.
    ///
    /// Each is refunded if the signature is right.
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
        imports = TokenBuckets(perMinute: limits.importsPerMinute, monotonic: monotonic)
        callbacks = TokenBuckets(perMinute: limits.loginsPerMinute, monotonic: monotonic)
        wrongTokens = TokenBuckets(perMinute: limits.wrongTokensPerMinute, monotonic: monotonic)
        refusedLegacy = TokenBuckets(perMinute: Self.refusedLegacyPerMinute, monotonic: monotonic)
        signatureFaults = SignatureCharges(perMinute: limits.wrongTokensPerMinute, monotonic: monotonic)
        state = Mutex(State())
        adopt(limits)
    }

    /// Applies the new configuration's limits, and keeps the present charges.
    package func adopt(_ limits: ChargeLimits) {
        logins.adopt(perMinute: limits.loginsPerMinute)
        imports.adopt(perMinute: max(limits.importsPerMinute, limits.loginsPerMinute))
        callbacks.adopt(perMinute: limits.loginsPerMinute)
        wrongTokens.adopt(perMinute: limits.wrongTokensPerMinute)
        signatureFaults.adopt(perMinute: limits.wrongTokensPerMinute)
        let pending = max(limits.pending, 1)
        state.withLock { state in
            state.capacity = pending
            for item in ChargedItem.allCases {
                // A burned login stays in this book until it expires, but the store's cap counts only pending logins. So the
                // book needs more room.
                let capacity = item == .login ? 2 * pending : pending
                let shares = item == .exchange ? limits.exchangeShares : limits.shares
                state.books[item, default: ChargeBook(capacity: capacity, shares: shares)]
                    .adopt(capacity: capacity, shares: shares)
            }
        }
    }

    /// Charges an address for an item, for example for a pending login.
    ///
    /// Returns nil on success. If the address has reached a limit, returns how long it has to wait.
    ///
    /// An item that is already charged costs nothing more. If `payer` names a login or exchange, the new item takes no token from
    /// the buckets, because the charge for `payer` includes it. The item then only counts towards the address's share of pending
    /// items. `pace` is the limit for items that take a token.
    func take(
        _ item: ChargedItem, _ key: Digest, from address: IPAddress, lasting: Duration, payer: Digest?, isGuess: Bool,
        pace: ChargePace = .logins
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
            if hasToken, let wait = buckets(for: item, pace).take(address) {
                if isGuess { wrongTokens.giveBack(address) }
                return wait
            }
            book.add(
                ChargeBook.Receipt(
                    address: address, until: now + lasting, hasToken: hasToken, pace: pace, isGuess: isGuess,
                    payer: payer),
                for: key)
            return nil
        }
    }

    /// Removes an item whose row was not made, so that it no longer counts towards the address's share of pending items.
    ///
    /// The tokens that the item took from the buckets are not refunded, because the work was already done.
    func drop(_ item: ChargedItem, _ key: Digest) {
        state.withLock { state in _ = state.books[item]?.remove(key) }
    }

    /// Refunds the charges for the login, exchange, registration and handoff that led to a new session.
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
        if receipt.hasToken { buckets(for: item, receipt.pace).giveBack(receipt.address) }
        if receipt.isGuess { wrongTokens.giveBack(receipt.address) }
        return receipt
    }

    /// Returns the number of provider calls that the broker has made for a login or registration.
    func calls(of key: Digest) -> Int { state.withLock { $0.calls.count(of: key) } }

    /// Charges an address for a provider call.
    ///
    /// Returns nil on success. If the address has reached its limit, returns how long it has to wait.
    func takeCall(from address: IPAddress) -> Duration? { logins.take(address) }

    /// Counts a provider call that the broker is about to make for a login or registration.
    func countCall(of key: Digest) {
        let now = monotonic()
        // If the table is full, this call is not counted. The charges for logins and registrations already bound the number of
        // calls.
        _ = state.withLock { $0.calls.add(key, now: now, capacity: $0.capacity) }
    }

    /// Counts a signature that the broker is about to verify for a login, exchange or registration.
    ///
    /// The charge for the login, exchange or registration includes some checks (`paidSignatures`). A further check is charged
    /// to the address. Returns nil if the check may begin, or else how long the address has to wait.
    func takeSignature(of key: Digest, from address: IPAddress) -> Duration? {
        let now = monotonic()
        let count = state.withLock { $0.signatures.add(key, now: now, capacity: $0.capacity) }
        if let count, count < Self.paidSignatures { return nil }
        return logins.take(address)
    }

    /// Charges an address for presenting a secret that the broker does not know.
    ///
    /// Returns nil on success. If the address has reached its limit, returns how long it has to wait.
    func takeWrongToken(from address: IPAddress) -> Duration? { wrongTokens.take(address) }

    /// Returns how long the address has to wait before its next legacy token; nil if the token may be presented now.
    func waitForLegacy(from address: IPAddress) -> Duration? { refusedLegacy.wait(address) }

    func noteRefusedLegacy(from address: IPAddress) { _ = refusedLegacy.take(address) }

    /// Refunds the charge for a presented secret that turned out to be right.
    func giveBackWrongToken(to address: IPAddress) { wrongTokens.giveBack(address) }

    /// Returns the number of items of one kind, for example pending logins, that an address is charged for.
    package func count(_ item: ChargedItem, of address: IPAddress) -> Int {
        let now = monotonic()
        return state.withLock { state in
            state.books[item]?.expire(now: now)
            return state.books[item]?.count(of: address) ?? 0
        }
    }

    private func buckets(for item: ChargedItem, _ pace: ChargePace) -> TokenBuckets {
        switch pace {
        case .imports: imports
        case .logins: item == .handoff ? callbacks : logins
        }
    }
}

/// The present charges for one kind of item, for example for pending logins.
///
/// The book finds them by item, by address and by network.
///
/// The book is a value that the ledger's lock guards. `capacity` bounds its memory.
struct ChargeBook {
    /// The charge for one item, with the address that is charged.
    struct Receipt {
        let address: IPAddress
        /// The moment when the item's row expires, on the monotonic clock.
        let until: Duration
        /// Whether the charge took a token from the buckets.
        var hasToken = false
        /// The limit of the buckets that the charge took its token from.
        var pace = ChargePace.logins
        /// Whether the item was also charged as a wrong token, because the app's state key may be a guess.
        var isGuess = false
        /// The login or exchange whose charge includes this item; nil if the item took a token from the buckets itself.
        var payer: Digest?
    }

    /// The limit that refused an item: the address's share of pending items, or the capacity of the whole book.
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

    /// Applies another capacity and other shares.
    ///
    /// The charges in the book stay.
    mutating func adopt(capacity: Int, shares: LimitShares) {
        self.capacity = capacity
        self.shares = shares
    }

    /// The number of charged items.
    var count: Int { receipts.count }

    /// The length of `order`, which may still include items that were removed from the book.
    var places: Int { order.count }

    /// Returns the number of items that an address is charged for.
    func count(of address: IPAddress) -> Int { address.limitedNetworks.first.map { held[$0] ?? 0 } ?? 0 }

    /// The number of addresses and networks with charged items.
    var holders: Int { held.count }

    /// Returns the charge for an item; nil if the item is not charged now.
    func receipt(_ key: Digest) -> Receipt? { receipts[key] }

    /// Removes the charges for expired items.
    mutating func expire(now: Duration) {
        while first < order.count, order[first].until <= now {
            let key = order[first].key
            first += 1
            // If the item was removed and then charged again with a later expiry, the entry in `order` belongs to the old
            // charge. So keep the new charge.
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

    /// Rebuilds `order` when more than half of its entries belong to removed items.
    private mutating func compact() {
        guard order.count > 64, order.count > 2 * receipts.count else { return }
        order = order[first...].filter { receipts[$0.key]?.until == $0.until }
        first = 0
    }
}

/// Counts the provider calls or signature checks for each login, exchange or registration, because its charge includes some of
/// them.
///
/// The memory is bounded.
struct PaidCounts {
    /// The time that the table keeps a key after its last call or check.
    ///
    /// A login or registration lasts a shorter time.
    private let lifetime: Duration
    private var counts: [Digest: (count: Int, until: Duration)] = [:]
    private var nextSweep = Duration.zero

    /// Creates an empty table.
    init(lifetime: Duration) { self.lifetime = lifetime }

    /// Returns the number of calls or checks that were counted for a key.
    func count(of key: Digest) -> Int { counts[key]?.count ?? 0 }

    /// Counts one more call or check for a key.
    ///
    /// Returns the key's new number; nil if the key is new and the table is full.
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

    /// Removes a key and its number from the table.
    mutating func forget(_ key: Digest) { counts[key] = nil }
}
