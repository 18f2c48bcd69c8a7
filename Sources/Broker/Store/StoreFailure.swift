/// Why the store did not do it.
///
/// A store that fails is a 503 for the caller, never "no session" (guarantee 3).
package enum StoreFailure: Error, Sendable, Equatable {
    /// Not reachable, full, or timed out; whether a write happened is not known.
    case unavailable(String)
    /// The row was written by a newer version (SEC-130); it is left alone.
    case newerFormat
}
