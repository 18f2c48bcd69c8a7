import Broker

/// The first line of an endings file.
struct EndingsHeader: Sendable, Equatable {
    /// From when on the file has every ending.
    var since: WallTime
    /// The longest lifetime that a session may have had since: what ended longer ago is in no backup as a live session.
    var longestLifetime: Duration

    /// Tells our files from others.
    private static let name = "coatcheck-endings"
    private static let version = "1"

    /// The line, with its end.
    var line: String {
        EndingsLine.text([
            Self.name, Self.version, String(since.milliseconds), String(longestLifetime.wholeMilliseconds),
        ])
    }

    init(since: WallTime, longestLifetime: Duration) {
        self.since = since
        self.longestLifetime = longestLifetime
    }

    /// Reads a line without its end; nil where it is none of ours.
    init?(line: some Collection<UInt8>) {
        guard let words = EndingsLine.words(line), words.count == 4, words[0] == Self.name, words[1] == Self.version,
            let since = Int64(words[2]), let lifetime = Int64(words[3]), lifetime > 0
        else { return nil }
        self.init(since: WallTime(milliseconds: since), longestLifetime: .milliseconds(lifetime))
    }
}
