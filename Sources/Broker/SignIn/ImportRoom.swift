import Synchronization

/// The imports that this process has in progress at each provider.
///
/// After the release of an app, all of its phones may import at the same time. So the number of imports is limited, and a
/// provider that answers 429 gets no import for as long as it asks.
final class ImportRoom: Sendable {
    /// The largest number of imports of one provider in progress.
    static let limit = 128
    /// The pause after a 429 that lacks the time, and the longest pause.
    private static let (usualPause, longestPause) = (Duration.seconds(30), Duration.seconds(3600))

    /// The answer to a caller that asks for room.
    enum Entry: Sendable, Equatable {
        case open, full
        /// The provider has answered 429, and asks for this pause.
        case held(Duration)
    }

    private struct Place {
        var inProgress = 0
        var heldUntil: Duration?

        func entry(at moment: Duration) -> Entry {
            if let heldUntil, heldUntil > moment { return .held(heldUntil - moment) }
            return inProgress < limit ? .open : .full
        }
    }

    /// Guards the places; there is at most one for each configured provider.
    private let places = Mutex<[ProviderName: Place]>([:])

    /// Returns whether there is room for an import of the provider.
    func entry(_ provider: ProviderName, at moment: Duration) -> Entry {
        places.withLock { $0[provider, default: Place()].entry(at: moment) }
    }

    /// Takes room for an import, if there is any; the caller then calls `leave`.
    func enter(_ provider: ProviderName, at moment: Duration) -> Entry {
        places.withLock { places in
            let entry = places[provider, default: Place()].entry(at: moment)
            if entry == .open { places[provider, default: Place()].inProgress += 1 }
            return entry
        }
    }

    func leave(_ provider: ProviderName) { places.withLock { $0[provider, default: Place()].inProgress -= 1 } }

    /// Notes that the provider has answered 429, and asks for a pause.
    func hold(_ provider: ProviderName, for pause: Duration?, at moment: Duration) {
        let end = moment + min(pause ?? Self.usualPause, Self.longestPause)
        places.withLock { places in
            let held = places[provider]?.heldUntil ?? end
            places[provider, default: Place()].heldUntil = max(held, end)
        }
    }
}

extension BrokerContext {
    /// Returns the answer to an import while the process is full; nil if there is room.
    func importRefusal(_ entry: ImportRoom.Entry) -> BrokerProblem? {
        switch entry {
        case .open: return nil
        // The phones come back at different times.
        case .full:
            let random = (try? vault.random(1))?.first ?? 0
            return BrokerProblem(
                .providerUnavailable, privateDetail: "too many imports are in progress",
                retryAfter: .seconds(1 + Int(random) % 30))
        case .held(let pause):
            return BrokerProblem(
                .providerUnavailable, privateDetail: "the provider has asked imports to wait", retryAfter: pause)
        }
    }
}
