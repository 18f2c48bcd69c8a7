/// The state of the sessions that a listing shows.
package enum SessionState: String, Sendable, CaseIterable {
    case live
    /// Tombstones. A lapsed session becomes a tombstone a day after its lapse, when the sweeper buries it.
    case ended
}
