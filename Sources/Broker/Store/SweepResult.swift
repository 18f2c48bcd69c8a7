/// The result of one sweep.
package struct SweepResult: Sendable, Equatable {
    /// The number of rows that the sweep removed or changed.
    package var touched: Int
    /// The sessions that have lapsed since `lapsedSince`, so that the caller announces them.
    package var ended: [EndedSession]

    package init(touched: Int = 0, ended: [EndedSession] = []) {
        self.touched = touched
        self.ended = ended
    }
}
