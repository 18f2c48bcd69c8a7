/// The release of an import's claim after a fault.
package struct ImportRelease: Sendable, Equatable {
    /// The number of calls that may have reached the provider, and whose answers were lost.
    package let calls: Int
    /// The time of a refusal that may mean a dead grant; nil after other faults.
    package let refusedAt: WallTime?

    package init(calls: Int, refusedAt: WallTime? = nil) {
        self.calls = calls
        self.refusedAt = refusedAt
    }
}
