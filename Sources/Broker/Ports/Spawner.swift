/// How detached work starts: `Broker` never writes `Task {`.
///
/// Production drains what was spawned on SIGTERM.
package struct Spawner: Sendable {
    /// Starts `work` apart from the caller; its name is for logs and metrics, from a fixed set.
    package let spawn: @Sendable (_ name: StaticString, _ work: @escaping @Sendable () async -> Void) -> Void

    /// Creates a spawner from its closure.
    package init(
        spawn: @escaping @Sendable (_ name: StaticString, _ work: @escaping @Sendable () async -> Void) -> Void
    ) {
        self.spawn = spawn
    }
}
