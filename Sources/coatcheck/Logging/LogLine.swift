import Broker
import Foundation

/// A log line under construction: a JSON object with time, level and message, then further members.
struct LogLine {
    private(set) var bytes: [UInt8]

    /// The time of a line to the second, without its zone.
    private static let second = FormattedTimeCache { time in String(time.rfc3339.dropLast()) }

    /// Begins a line; the time is UTC with milliseconds.
    init(_ time: WallTime, level: String, message: String) {
        bytes = []
        bytes.reserveCapacity(256)
        bytes.append(contentsOf: "{\"time\":\"".utf8)
        bytes.append(contentsOf: Self.second.text(at: time).utf8)
        let fraction = UInt16(truncatingIfNeeded: time.milliseconds - time.seconds * 1000)
        bytes.append(UInt8(ascii: "."))
        for divisor: UInt16 in [100, 10, 1] { bytes.append(48 + UInt8(truncatingIfNeeded: fraction / divisor % 10)) }
        bytes.append(contentsOf: "Z\",\"level\":\"".utf8)
        bytes.append(contentsOf: level.utf8)
        bytes.append(contentsOf: "\",\"message\":".utf8)
        LogText.append(message, to: &bytes)
    }

    /// Adds a member whose name is the broker's own.
    mutating func add(_ name: String, _ value: String) {
        addName(name)
        LogText.append(value, to: &bytes)
    }

    /// Adds a member whose name comes from a library.
    mutating func add(foreign name: String, _ value: String) {
        bytes.append(UInt8(ascii: ","))
        LogText.append(name, to: &bytes)
        bytes.append(UInt8(ascii: ":"))
        LogText.append(value, to: &bytes)
    }

    /// Adds members that were formatted before.
    mutating func add(_ members: LogMembers) { bytes.append(contentsOf: members.bytes) }

    mutating func add(_ name: String, _ value: Int) {
        addName(name)
        bytes.append(contentsOf: String(value).utf8)
    }

    /// Adds the ids of the line's request, if there is one.
    mutating func add(_ scope: RequestScope?) {
        guard let scope else { return }
        add("request_id", scope.requestID)
        if let span = scope.span { add("trace_id", span.traceID) }
    }

    /// Closes the object and returns the line.
    consuming func finished() -> [UInt8] {
        bytes.append(UInt8(ascii: "}"))
        return bytes
    }

    private mutating func addName(_ name: String) {
        bytes.append(UInt8(ascii: ","))
        bytes.append(UInt8(ascii: "\""))
        bytes.append(contentsOf: name.utf8)
        bytes.append(UInt8(ascii: "\""))
        bytes.append(UInt8(ascii: ":"))
    }
}
