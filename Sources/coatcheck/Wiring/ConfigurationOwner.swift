import Synchronization

/// The one place where the running configuration stands and is exchanged.
final class ConfigurationOwner: Sendable {
    private let state: Mutex<RunningConfiguration>

    init(_ first: RunningConfiguration) { state = Mutex(first) }

    /// The configuration that new work begins with.
    var current: RunningConfiguration { state.withLock { $0 } }

    /// Puts another in its place; returns the one before, so that it does not end under the lock.
    func exchange(for next: RunningConfiguration) -> RunningConfiguration {
        state.withLock { current in
            defer { current = next }
            return current
        }
    }
}
