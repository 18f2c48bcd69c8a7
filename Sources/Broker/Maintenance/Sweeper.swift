/// Removes expired rows in small batches, by whoever holds the lease.
package struct Sweeper: Sendable {
    private let context: BrokerContext
    private let owner: String

    /// Creates a sweeper; `owner` tells this process from others.
    package init(_ context: BrokerContext, owner: String) {
        self.context = context
        self.owner = owner
    }

    /// Sweeps one batch when the lease is ours; returns how many rows it touched, nil when another process sweeps.
    package func sweep(limit: Int = 500) async throws(StoreFailure) -> Int? {
        let now = context.clock.now()
        guard
            try await context.store.acquireLease(
                "sweeper", owner: owner, now: now, until: now.advanced(by: .seconds(90)))
        else { return nil }
        return try await context.store.sweep(now: now, limit: limit)
    }
}
