import Broker
import Foundation
import Glibc
import Synchronization

/// The log of this process: a level, a clock and a destination.
struct ProcessLog: Sendable {
    let threshold: LogThreshold
    let now: @Sendable () -> WallTime
    /// Receives a finished line.
    let emit: @Sendable ([UInt8]) -> Void

    init(
        level: LogSettings.Level, now: @escaping @Sendable () -> WallTime, emit: @escaping @Sendable ([UInt8]) -> Void
    ) {
        threshold = LogThreshold(level)
        self.now = now
        self.emit = emit
    }

    /// The names of the members that are written as numbers.
    private static let numbers: Set<String> = [
        "at_most_ms", "changes", "count", "delay_ms", "port", "providers_kept", "providers_made", "requests", "status",
        "streams", "took_ms", "away_ms",
    ]

    /// Writes a line.
    ///
    /// A line about a request has the request's and the trace's ids. Members are the broker's own words, or values from a fixed
    /// set. They must not contain a secret.
    func write(_ level: LogSettings.Level, _ message: String, _ members: [(String, String)] = []) {
        guard threshold.takes(level) else { return }
        var line = LogLine(now(), level: level.rawValue, message: message)
        for (name, value) in members {
            if Self.numbers.contains(name), let number = Int(value) {
                line.add(name, number)
            } else {
                line.add(name, value)
            }
        }
        line.add(RequestScope.current)
        emit(line.finished())
    }
}

extension LogSettings.Level {
    /// The position of the level in the order of severity.
    var rank: Int { Self.allCases.firstIndex(of: self) ?? 0 }
}

/// Writes texts into a JSON log line so that they cannot imitate other parts of it (SEC-115).
enum LogText {
    /// The largest number of characters of one text.
    static let limit = 1024

    /// Appends a JSON string.
    ///
    /// Controls, line and paragraph separators, and marks that change the reading direction are escaped. A longer text is cut
    /// and marked as cut.
    static func append(_ text: String, to line: inout [UInt8]) {
        line.append(UInt8(ascii: "\""))
        defer { line.append(UInt8(ascii: "\"")) }
        // Append a short text of plain ASCII as a whole, because nearly all texts are short ASCII.
        var text = text
        let isPlain = text.withUTF8 { bytes in
            guard bytes.count <= limit, PlainText.isASCIIOfJSON(bytes) else { return false }
            line.append(contentsOf: bytes)
            return true
        }
        guard !isPlain else { return }
        var count = 0
        for scalar in text.unicodeScalars {
            guard count < limit else {
                line.append(contentsOf: "…".utf8)
                break
            }
            count += 1
            switch scalar.value {
            case 0x22: line.append(contentsOf: [0x5C, 0x22])
            case 0x5C: line.append(contentsOf: [0x5C, 0x5C])
            case 0x0A: line.append(contentsOf: [0x5C, 0x6E])
            case 0x20...0x7E: line.append(UInt8(truncatingIfNeeded: scalar.value))
            case 0x00...0x1F, 0x7F...0x9F, 0x061C, 0x200B...0x200F, 0x2028...0x202E, 0x2060...0x2069, 0xFEFF,
                0xFFF9...0xFFFB,
                0xE0000...0xE007F:
                appendEscape(scalar, to: &line)
            default: line.append(contentsOf: String(scalar).utf8)
            }
        }
    }

    private static func appendEscape(_ scalar: Unicode.Scalar, to line: inout [UInt8]) {
        for unit in String(scalar).utf16 {
            line.append(contentsOf: [0x5C, 0x75])
            for shift in [12, 8, 4, 0] {
                let digit = UInt8(truncatingIfNeeded: unit >> shift & 15)
                line.append(digit < 10 ? 0x30 + digit : 0x61 + digit - 10)
            }
        }
    }
}

/// The lowest level that is written, which a reload may change.
final class LogThreshold: Sendable {
    private let rank: Atomic<Int>

    init(_ level: LogSettings.Level) { rank = Atomic(level.rank) }

    /// Returns whether lines of a level are written.
    func takes(_ level: LogSettings.Level) -> Bool { level.rank >= rank.load(ordering: .relaxed) }

    /// Switches to another level.
    func adopt(_ level: LogSettings.Level) { rank.store(level.rank, ordering: .relaxed) }
}
