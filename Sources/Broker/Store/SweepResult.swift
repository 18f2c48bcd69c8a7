/// What one sweep came to.
package struct SweepResult: Sendable, Equatable {
    /// How many rows it touched.
    package var touched: Int
    /// The sessions that have lapsed since the last sweep, to be made known.
    package var ended: [EndedSession]

    package init(touched: Int = 0, ended: [EndedSession] = []) {
        self.touched = touched
        self.ended = ended
    }
}
