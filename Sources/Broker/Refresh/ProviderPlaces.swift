import Synchronization

/// The calls of users' sessions that are under way at each provider, so that one user's do not hold all of its places.
///
/// A session has one call at a time; a user has many sessions. A sign-in is nobody's yet, and takes no place here.
final class ProviderPlaces: Sendable {
    private struct Key: Hashable {
        let provider: ProviderName
        let subject: Digest
    }

    /// The pause between two looks for a free place.
    private static let pause = Duration.milliseconds(50)

    /// Guards the counts; a user without a call under way has none.
    private let counts = Mutex<[Key: Int]>([:])

    /// Returns the places that one user may have of a provider's: a quarter, and at least two.
    static func share(of places: Int) -> Int { max(2, places / 4) }

    /// Does a call in one of the user's places, once one is free; nil where none is by the deadline.
    func within<Value: Sendable>(
        _ provider: any ProviderClient, _ subject: Digest, by deadline: Duration, _ clock: BrokerClock,
        _ call: () async throws(ProviderFailure) -> Value
    ) async throws(ProviderFailure) -> Value {
        let key = Key(provider: provider.profile.name, subject: subject)
        while !take(key, of: Self.share(of: provider.places)) {
            guard clock.monotonic() + Self.pause < deadline, (try? await clock.sleep(Self.pause)) != nil else {
                throw .notSent(detail: "the user's share of the provider's places is taken")
            }
        }
        defer { giveBack(key) }
        return try await call()
    }

    private func take(_ key: Key, of share: Int) -> Bool {
        counts.withLock { counts in
            guard counts[key, default: 0] < share else { return false }
            counts[key, default: 0] += 1
            return true
        }
    }

    private func giveBack(_ key: Key) {
        counts.withLock { counts in
            let left = counts[key, default: 1] - 1
            counts[key] = left > 0 ? left : nil
        }
    }
}
