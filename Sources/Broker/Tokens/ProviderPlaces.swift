import Synchronization

/// The calls in progress at each provider, by user, so that one user cannot use all calls that the provider allows.
///
/// A session makes one call at a time, but a user may have many sessions. Sign-ins are left out, because their users are
/// still unknown.
final class ProviderPlaces: Sendable {
    private struct Key: Hashable {
        let provider: ProviderName
        let subject: Digest
    }

    /// The pause between two checks whether the user may make another call.
    private static let pause = Duration.milliseconds(50)

    /// Guards the counts; only users with a call in progress have one.
    private let counts = Mutex<[Key: Int]>([:])

    /// Makes a provider call for one user, after a pause if the user already has as many calls in progress as one user may have.
    ///
    /// Throws `notSent` if the deadline comes first.
    func within<Value: Sendable>(
        _ provider: any ProviderClient, _ subject: Digest, by deadline: Duration, _ clock: BrokerClock,
        _ call: () async throws(ProviderFailure) -> Value
    ) async throws(ProviderFailure) -> Value {
        let key = Key(provider: provider.profile.name, subject: subject)
        // One user may make a quarter of the provider's simultaneous calls, but at least two.
        let share = max(2, provider.places / 4)
        while !take(key, of: share) {
            guard clock.monotonic() + Self.pause < deadline, (try? await clock.sleep(Self.pause)) != nil else {
                throw .notSent(detail: "the user's other calls take all places that one user may have at the provider")
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
