import Broker
import Synchronization

/// Remembers of which providers something was said already, so that it is said once.
final class FirstTimes: Sendable {
    private let seen = Mutex<Set<ProviderName>>([])

    /// Returns whether this is the provider's first time.
    func isFirst(_ provider: ProviderName) -> Bool { seen.withLock { $0.insert(provider).inserted } }
}
