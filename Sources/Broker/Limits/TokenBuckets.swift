import Synchronization

/// Limits how often an address and its networks may do one kind of request in a minute, for example present a wrong session
/// token.
///
/// Each address and each network has a token bucket that refills evenly, in bounded memory (SEC-119, SEC-121).
///
/// The buckets are in the process's memory, so each replica counts alone.
package final class TokenBuckets: Sendable {
    private struct Bucket {
        var tokens: Double
        var at: Duration
    }

    /// The buckets of one level (address, line or network).
    private struct Table {
        let maximum: Int
        var perMinute: Double
        var buckets: [IPAddress: Bucket] = [:]
        /// The common bucket of all addresses that found no room in the full table.
        var overflow: Bucket
        /// The earliest moment of the next search for buckets that have all their tokens again.
        ///
        /// Only a full table is searched.
        var nextSweep = Duration.zero

        init(perMinute: Int, maximum: Int, now: Duration) {
            self.maximum = maximum
            self.perMinute = Double(max(perMinute, 1))
            overflow = Bucket(tokens: self.perMinute, at: now)
        }

        private func refilled(_ bucket: Bucket, now: Duration) -> Double {
            let elapsed = Double(max(now - bucket.at, .zero).wholeMilliseconds) / 1000
            return min(perMinute, bucket.tokens + elapsed * perMinute / 60)
        }

        /// Whether the table has as many buckets as it may have.
        private var isFull: Bool { buckets.count >= maximum }

        /// If the table is full, removes the buckets that have all their tokens again, so that a bucket for a new key fits.
        mutating func makeRoom(for key: IPAddress, now: Duration) {
            guard isFull, now >= nextSweep, buckets[key] == nil else { return }
            nextSweep = now + .seconds(1)
            buckets = buckets.filter { refilled($0.value, now: now) < perMinute }
        }

        /// Returns the time until a token is available for the key; nil if a token is available now.
        func wait(_ key: IPAddress, now: Duration) -> Duration? {
            // An address without a bucket still has all of its tokens.
            guard let bucket = buckets[key] ?? (isFull ? overflow : nil) else { return nil }
            let tokens = refilled(bucket, now: now)
            guard tokens < 1 else { return nil }
            return .milliseconds(Int64(((1 - tokens) * 60_000 / perMinute).rounded(.up)))
        }

        /// Takes a token.
        ///
        /// The caller has checked that a token is available.
        mutating func take(_ key: IPAddress, now: Duration) {
            let known = buckets[key]
            let isShared = known == nil && isFull
            let bucket = known ?? (isShared ? overflow : Bucket(tokens: perMinute, at: now))
            let left = Bucket(tokens: refilled(bucket, now: now) - 1, at: now)
            if isShared { overflow = left } else { buckets[key] = left }
        }

        /// Refunds a token, up to the number of tokens that a full bucket has.
        mutating func giveBack(_ key: IPAddress, now: Duration) {
            guard let bucket = buckets[key] else { return }
            buckets[key] = Bucket(tokens: min(perMinute, refilled(bucket, now: now) + 1), at: now)
        }
    }

    private let monotonic: @Sendable () -> Duration
    /// Guards the buckets of each level.
    ///
    /// Code that holds this lock takes no other lock.
    private let state: Mutex<[Table]>

    /// Creates buckets that refill in a minute, with `perMinute` tokens for an address and more for its networks
    /// (`LimitShares`).
    ///
    /// At most `maximumAddresses` of each level are remembered.
    package init(perMinute: Int, maximumAddresses: Int = 65_536, monotonic: @escaping @Sendable () -> Duration) {
        self.monotonic = monotonic
        let (shares, now) = (LimitShares(perMinute: perMinute), monotonic())
        state = Mutex(
            LimitLevel.allCases.map { Table(perMinute: shares[$0], maximum: maximumAddresses, now: now) })
    }

    /// Changes the number of tokens for each minute.
    ///
    /// Tokens that were taken before are not refunded.
    package func adopt(perMinute: Int) {
        let shares = LimitShares(perMinute: perMinute)
        state.withLock { tables in
            for level in LimitLevel.allCases { tables[level.rawValue].perMinute = Double(max(shares[level], 1)) }
        }
    }

    /// Takes a token from the address's bucket and from the bucket of each of its networks.
    ///
    /// Returns nil on success. If a bucket is empty, takes no token, and returns the time until all these buckets have a token.
    package func take(_ address: IPAddress) -> Duration? {
        let now = monotonic()
        let networks = address.limitedNetworks
        return state.withLock { tables in
            var wait: Duration?
            for network in networks {
                tables[network.level.rawValue].makeRoom(for: network.address, now: now)
                guard let more = tables[network.level.rawValue].wait(network.address, now: now) else { continue }
                wait = max(wait ?? .zero, more)
            }
            // If a bucket is empty, the request takes no token from the other buckets, and no bucket is made for its address.
            guard wait == nil else { return wait }
            for network in networks { tables[network.level.rawValue].take(network.address, now: now) }
            return nil
        }
    }

    /// Returns the time until the buckets of an address have a token; nil if they have one now.
    func wait(_ address: IPAddress) -> Duration? {
        let now = monotonic()
        return state.withLock { tables in
            address.limitedNetworks.compactMap { tables[$0.level.rawValue].wait($0.address, now: now) }.max()
        }
    }

    /// Refunds a token to the buckets of an address and its networks.
    package func giveBack(_ address: IPAddress) {
        let now = monotonic()
        let networks = address.limitedNetworks
        state.withLock { tables in
            for network in networks { tables[network.level.rawValue].giveBack(network.address, now: now) }
        }
    }

    /// The number of addresses and networks that have a bucket in memory.
    package var count: Int { state.withLock { $0.reduce(0) { $0 + $1.buckets.count } } }
}
