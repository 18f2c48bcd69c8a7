/// Which sessions a listing shows.
package enum SessionState: String, Sendable, CaseIterable {
    case live
    /// Tombstones. A session that is past its times becomes one within half a minute, when it is swept.
    case ended
}
