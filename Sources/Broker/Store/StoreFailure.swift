/// The reason why a store operation failed.
///
/// If the store fails, the app gets a 503, and never the answer that its session is unknown (guarantee 3).
package enum StoreFailure: Error, Sendable, Equatable {
    /// The store was unreachable, so the row is unchanged. If a result exists only in memory, the caller repeats the write,
    /// and answers 503 meanwhile.
    case unavailable(String)
    /// The response was lost, so the operation may have taken effect. Every write can be repeated safely; a claim is repeated
    /// under the same name.
    case inDoubt(String)
    /// The disk is full, so the store refuses sign-ins and other new work. Endings and logout tokens are accepted while the
    /// reserved space lasts.
    case full
    /// A newer version wrote the row (SEC-130), so the row was not changed.
    case newerFormat
}
