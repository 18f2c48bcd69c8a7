import Synchronization

/// Limits how often an address may do something: one token bucket each, refilled evenly, in bounded memory (SEC-119,
/// SEC-121).
///
/// In process: every replica counts by itself.
package final class TokenBuckets: Sendable {
    private struct Bucket {
        var tokens: Double
        var at: Duration
    }

    private struct State {
        var perMinute: Double
        var buckets: [IPAddress: Bucket] = [:]
        /// Shared by addresses that find the table full of others still waiting for theirs.
        var overflow: Bucket
        /// Not before then is a full table searched again for buckets that have refilled.
        var nextSweep = Duration.zero

        func refilled(_ bucket: Bucket, now: Duration) -> Double {
            let elapsed = Double(max(now - bucket.at, .zero).wholeMilliseconds) / 1000
            return min(perMinute, bucket.tokens + elapsed * perMinute / 60)
        }

        func take(_ bucket: inout Bucket, now: Duration) -> Duration? {
            bucket.tokens = refilled(bucket, now: now)
            bucket.at = now
            guard bucket.tokens < 1 else {
                bucket.tokens -= 1
                return nil
            }
            return .milliseconds(Int64(((1 - bucket.tokens) * 60_000 / perMinute).rounded(.up)))
        }
    }

    private let maximumAddresses: Int
    private let monotonic: @Sendable () -> Duration
    /// Guards the buckets; nothing is called while it is held.
    private let state: Mutex<State>

    /// Creates buckets of `perMinute` tokens that refill in a minute, for at most `maximumAddresses` addresses.
    package init(perMinute: Int, maximumAddresses: Int = 65_536, monotonic: @escaping @Sendable () -> Duration) {
        let perMinute = Double(max(perMinute, 1))
        self.maximumAddresses = maximumAddresses
        self.monotonic = monotonic
        state = Mutex(State(perMinute: perMinute, overflow: Bucket(tokens: perMinute, at: monotonic())))
    }

    /// Goes on with another number of tokens a minute; what was taken stays taken.
    package func adopt(perMinute: Int) { state.withLock { $0.perMinute = Double(max(perMinute, 1)) } }

    /// Takes a token; returns nil when there was one, else how long until the next.
    package func take(_ address: IPAddress) -> Duration? {
        let now = monotonic()
        let key = address.limitKey
        return state.withLock { state in
            if var bucket = state.buckets[key] {
                let wait = state.take(&bucket, now: now)
                state.buckets[key] = bucket
                return wait
            }
            if state.buckets.count >= maximumAddresses, now >= state.nextSweep {
                state.nextSweep = now + .seconds(1)
                state.buckets = state.buckets.filter { [state] in state.refilled($0.value, now: now) < state.perMinute }
            }
            guard state.buckets.count < maximumAddresses else {
                var overflow = state.overflow
                defer { state.overflow = overflow }
                return state.take(&overflow, now: now)
            }
            var bucket = Bucket(tokens: state.perMinute, at: now)
            let wait = state.take(&bucket, now: now)
            state.buckets[key] = bucket
            return wait
        }
    }

    /// Gives a token back; a bucket never holds more than it did at first.
    package func giveBack(_ address: IPAddress) {
        let now = monotonic()
        let key = address.limitKey
        state.withLock { state in
            // An address without a bucket has all its tokens.
            guard var bucket = state.buckets[key] else { return }
            bucket.tokens = min(state.perMinute, state.refilled(bucket, now: now) + 1)
            bucket.at = now
            state.buckets[key] = bucket
        }
    }

    /// How many addresses are remembered.
    package var count: Int { state.withLock { $0.buckets.count } }
}
