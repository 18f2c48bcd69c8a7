/// The reason why a store operation failed.
///
/// A failing store causes a 503 for the caller, never "no session" (guarantee 3).
package enum StoreFailure: Error, Sendable, Equatable {
    /// The store was unreachable, and nothing was written. A caller with a result to lose tries again, and answers 503.
    case unavailable(String)
    /// The response was lost, so the operation may have taken effect. Every write can be repeated, a claim under its name.
    case inDoubt(String)
    /// The disk is full, so the write was refused, and so is new work. Endings and logout tokens continue while they find room.
    case full
    /// A newer version wrote the row (SEC-130), so the row is left alone.
    case newerFormat
}
