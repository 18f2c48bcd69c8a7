package import Broker

/// Counts and times of the endings in a file.
package struct EndingsSummary: Sendable, Equatable {
    /// The time from which the file's record of endings is complete.
    package let since: WallTime
    package var longestLifetime: Duration
    /// The number of the file's endings.
    package var entries = 0
    /// The number of unreadable lines.
    ///
    /// An incomplete last line is ignored, because the caller of its ending is still waiting for an answer.
    package var damaged = 0
    /// The time of the newest ending.
    package var newest: WallTime?
    /// The number of bytes up to the end of the last whole line.
    var wholeBytes = 0
}
