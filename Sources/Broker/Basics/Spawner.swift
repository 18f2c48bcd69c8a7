/// Starts detached work, so that the module `Broker` itself creates no unstructured tasks.
///
/// In production, spawned work is finished on SIGTERM before the process ends.
package struct Spawner: Sendable {
    /// Starts `work` apart from the caller; `name` is from a fixed set, for logs and metrics.
    package let spawn: @Sendable (_ name: StaticString, _ work: @escaping @Sendable () async -> Void) -> Void

    /// Creates a spawner from its closure.
    package init(
        spawn: @escaping @Sendable (_ name: StaticString, _ work: @escaping @Sendable () async -> Void) -> Void
    ) {
        self.spawn = spawn
    }
}
