package import Broker

/// What an endings file is found to hold.
package struct EndingsSummary: Sendable, Equatable {
    /// From when on the file has every ending.
    package let since: WallTime
    package var longestLifetime: Duration
    /// How many endings it has.
    package var entries = 0
    /// How many lines cannot be read.
    ///
    /// A last line that a crash has torn is none of them: its ending was not answered.
    package var damaged = 0
    /// When the last of them ended.
    package var newest: WallTime?
    /// The bytes up to the end of the last whole line.
    var wholeBytes = 0
}
