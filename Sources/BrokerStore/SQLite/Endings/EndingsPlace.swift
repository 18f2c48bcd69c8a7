package import Broker

/// The settings of the endings file, which a restore reads (decision 33).
package struct EndingsPlace: Sendable {
    package let path: String
    /// The longest lifetime that a session may have.
    package let longestLifetime: Duration
    /// The present time; the record of endings in a new file is complete from this time on.
    package let now: WallTime

    package init(path: String, longestLifetime: Duration, now: WallTime) {
        self.path = path
        self.longestLifetime = longestLifetime
        self.now = now
    }
}
