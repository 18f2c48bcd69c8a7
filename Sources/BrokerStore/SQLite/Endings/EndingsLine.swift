import Broker

/// The format of a line in an endings file: words, then a checksum in eight hexadecimal digits.
///
/// The checksum detects a line that a crash or a bad disk has changed. An attacker with write access can forge the checksum.
enum EndingsLine {
    static func text(_ words: [String]) -> String {
        let text = words.joined(separator: " ")
        return "\(text) \(check(text.utf8))\n"
    }

    /// Returns the words of a line, which is given without its line end; nil if the checksum is wrong.
    static func words(_ line: some Collection<UInt8>) -> [Substring]? {
        guard let text = String(validating: line, as: UTF8.self), let space = text.lastIndex(of: " "),
            check(text[..<space].utf8) == text[text.index(after: space)...]
        else { return nil }
        return text[..<space].split(separator: " ", omittingEmptySubsequences: false)
    }

    /// FNV-1a of 64 bits, folded into 32.
    private static func check(_ bytes: some Sequence<UInt8>) -> String {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in bytes { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
        let text = String(UInt32(truncatingIfNeeded: hash ^ hash >> 32), radix: 16)
        return String(repeating: "0", count: 8 - text.count) + text
    }
}

/// The first line of an endings file.
struct EndingsHeader: Sendable, Equatable {
    /// The time from which the file's record of endings is complete.
    var since: WallTime
    /// The longest lifetime of sessions that were made since `since`.
    ///
    /// A session that ended longer ago than this has lapsed in every backup.
    var longestLifetime: Duration

    /// The first word of the line, which identifies Coatcheck's files.
    private static let name = "coatcheck-endings"
    private static let version = "1"

    /// The header as a line, with its line end.
    var line: String {
        EndingsLine.text([
            Self.name, Self.version, String(since.milliseconds), String(longestLifetime.wholeMilliseconds),
        ])
    }

    init(since: WallTime, longestLifetime: Duration) {
        self.since = since
        self.longestLifetime = longestLifetime
    }

    /// Reads a line, which is given without its line end; nil for another file's line.
    init?(line: some Collection<UInt8>) {
        guard let words = EndingsLine.words(line), words.count == 4, words[0] == Self.name, words[1] == Self.version,
            let since = Int64(words[2]), let lifetime = Int64(words[3]), lifetime > 0
        else { return nil }
        self.init(since: WallTime(milliseconds: since), longestLifetime: .milliseconds(lifetime))
    }
}
