package import Broker

/// Where endings are kept beside the database, for the day on which a backup is restored (decision 33).
package struct EndingsPlace: Sendable {
    package let path: String
    /// The longest lifetime that a session may have.
    package let longestLifetime: Duration
    /// The time at which the file begins, where there is none yet.
    package let now: WallTime

    package init(path: String, longestLifetime: Duration, now: WallTime) {
        self.path = path
        self.longestLifetime = longestLifetime
        self.now = now
    }
}
