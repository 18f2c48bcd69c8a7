import Synchronization

/// Owns the running configuration, and replaces it at a reload.
final class ConfigurationOwner: Sendable {
    private let state: Mutex<RunningConfiguration>

    init(_ first: RunningConfiguration) { state = Mutex(first) }

    /// The configuration for new work.
    var current: RunningConfiguration { state.withLock { $0 } }

    /// Replaces the configuration, and returns the previous one, so that its parts are released outside the lock.
    func exchange(for next: RunningConfiguration) -> RunningConfiguration {
        state.withLock { current in
            defer { current = next }
            return current
        }
    }
}
