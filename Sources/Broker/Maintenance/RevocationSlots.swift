import Synchronization

/// How many revocations are under way, in all and at each provider, so that one that hangs holds up no other's.
final class RevocationSlots: Sendable {
    private struct State {
        var running = 0
        var byProvider: [ProviderName: Int] = [:]
    }

    static let total = 16
    static let perProvider = 2

    /// Guards the counts.
    private let state = Mutex(State())

    /// Takes as many places as are free, at most `limit`; each is given back with `leave`.
    func enter(_ limit: Int) -> Int {
        state.withLock { state in
            let places = max(0, min(limit, Self.total - state.running))
            state.running += places
            return places
        }
    }

    /// Gives places back.
    func leave(_ places: Int) { state.withLock { $0.running -= places } }

    /// Takes a place at a provider; false when it has enough to do.
    func begin(_ provider: ProviderName) -> Bool {
        state.withLock { state in
            guard state.byProvider[provider, default: 0] < Self.perProvider else { return false }
            state.byProvider[provider, default: 0] += 1
            return true
        }
    }

    /// Gives a provider's place back.
    func end(_ provider: ProviderName) {
        state.withLock { state in
            let left = state.byProvider[provider, default: 1] - 1
            state.byProvider[provider] = left > 0 ? left : nil
        }
    }
}
