/// The reason why a store operation failed.
///
/// If the store fails, the caller gets a 503 and never "no session" (guarantee 3).
package enum StoreFailure: Error, Sendable, Equatable {
    /// The store was unreachable, and nothing was written. A caller whose result would be lost retries the write, and answers
    /// 503.
    case unavailable(String)
    /// The response was lost, so the operation may have taken effect. Every write can be repeated safely, a claim under its
    /// name.
    case inDoubt(String)
    /// The disk is full, so the write was refused, and so are sign-ins and other new work. Endings and logout tokens are
    /// accepted while there is space for them.
    case full
    /// A newer version wrote the row (SEC-130), so the row was not changed.
    case newerFormat
}
