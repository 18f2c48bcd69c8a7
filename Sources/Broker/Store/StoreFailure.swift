/// Why the store did not do it.
///
/// A store that fails is a 503 for the caller, never "no session" (guarantee 3).
package enum StoreFailure: Error, Sendable, Equatable {
    /// Not reachable or full: nothing was written.
    case unavailable(String)
    /// The answer was lost: what was asked may have been done. Every write can be asked for again.
    case inDoubt(String)
    /// The row was written by a newer version (SEC-130); it is left alone.
    case newerFormat
}
