/// The reason for which the store did not do it.
///
/// A store that fails is a 503 for the caller, never "no session" (guarantee 3).
package enum StoreFailure: Error, Sendable, Equatable {
    /// Not reachable: nothing was written. The caller tries again where it has something to lose, and answers 503.
    case unavailable(String)
    /// The answer was lost: what was asked may have been done. Every write can be asked for again, a claim under its name.
    case inDoubt(String)
    /// There is no room: nothing was written, and nothing new is begun. Endings and logout tokens go on as long as they
    /// find room.
    case full
    /// The row was written by a newer version (SEC-130); it is left alone.
    case newerFormat
}
