import Broker
import Foundation
import Glibc
import Logging
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

    /// Returns whether lines of this level are written.
    func takes(_ level: LogSettings.Level) -> Bool { threshold.takes(level) }

    /// Writes a line.
    ///
    /// A line about a request has the request's and the trace's ids. Members are the broker's own words, or values from a fixed
    /// set. They must not contain a secret.
    func write(_ level: LogSettings.Level, _ message: String, _ members: [(String, String)] = []) {
        guard takes(level) else { return }
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

/// Writes swift-log's events as JSON lines, from the broker and from libraries with a logger.
struct JSONLogHandler: LogHandler {
    let label: String
    let sink: LogSink
    let now: @Sendable () -> WallTime
    var logLevel: Logger.Level
    var metadata: Logger.Metadata = [:]

    init(label: String, level: Logger.Level, sink: LogSink, now: @escaping @Sendable () -> WallTime) {
        self.label = label
        logLevel = level
        self.sink = sink
        self.now = now
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        var line = LogLine(now(), level: event.level.rawValue, message: event.message.description)
        line.add("logger", label)
        let all = metadata.merging(event.metadata ?? [:]) { _, own in own }
        for (name, value) in all.sorted(by: { $0.key < $1.key }).prefix(32) {
            line.add(foreign: name, value.description)
        }
        line.add(RequestScope.current)
        sink.write(line.finished())
    }
}

/// Receives log lines and writes them on a thread of its own, so that a slow reader never delays an event loop.
///
/// A line that does not fit into the buffer is dropped and counted.
final class LogSink: Sendable {
    private struct State {
        var buffer: [UInt8] = []
        var dropped = 0
        var isClosed = false
    }

    /// The largest number of waiting bytes.
    static let capacity = 1 << 20
    /// The time in seconds that the first waiting line waits for further lines, which are then written together.
    private static let gathering = 0.005
    /// Guards the waiting lines.
    private let state = Mutex(State())
    private let signal = DispatchSemaphore(value: 0)
    private let finished = DispatchSemaphore(value: 0)
    private let descriptor: Int32

    /// Creates a sink that writes to a file descriptor, by default standard error.
    init(descriptor: Int32 = 2) {
        self.descriptor = descriptor
        let thread = Thread { [self] in work() }
        thread.name = "log"
        thread.stackSize = 128 << 10
        thread.start()
    }

    /// The number of waiting bytes.
    var waiting: Int { state.withLock { $0.buffer.count } }

    /// Takes one line without its line end.
    ///
    /// The call waits at most until another caller has appended a line.
    func write(_ line: [UInt8]) {
        let wasEmpty = state.withLock { state -> Bool in
            guard !state.isClosed, state.buffer.count + line.count < Self.capacity else {
                state.dropped += 1
                return false
            }
            let wasEmpty = state.buffer.isEmpty
            state.buffer.append(contentsOf: line)
            state.buffer.append(0x0A)
            return wasEmpty
        }
        if wasEmpty { signal.signal() }
    }

    /// Writes the waiting lines and ends the thread, within a second.
    func close() {
        state.withLock { $0.isClosed = true }
        signal.signal()
        _ = finished.wait(timeout: .now() + 1)
    }

    private func work() {
        while true {
            signal.wait()
            // Lines at nearly the same time share one write, because waking and writing cost more than making them.
            if !state.withLock({ $0.isClosed }) { Thread.sleep(forTimeInterval: Self.gathering) }
            let (bytes, dropped, isClosed) = state.withLock { state in
                let taken = (state.buffer, state.dropped, state.isClosed)
                state.buffer = []
                state.dropped = 0
                return taken
            }
            writeAll(bytes)
            if dropped > 0, !isClosed {
                writeAll(Array("{\"level\":\"warning\",\"message\":\"log lines dropped\",\"count\":\(dropped)}\n".utf8))
            }
            if isClosed { break }
        }
        finished.signal()
    }

    private func writeAll(_ bytes: [UInt8]) {
        var offset = 0
        while offset < bytes.count {
            let count = bytes[offset...].withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            // The log's reader is gone, but the broker continues to serve.
            guard count > 0 else { return }
            offset += count
        }
    }
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
        // Append a short text of plain ASCII as a whole, because nearly every text is one.
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

/// Members that many lines share, written once.
struct LogMembers: Sendable {
    fileprivate let bytes: [UInt8]

    init(_ members: [(name: String, value: String)]) {
        var bytes: [UInt8] = []
        for (name, value) in members {
            bytes.append(contentsOf: ",\"\(name)\":".utf8)
            LogText.append(value, to: &bytes)
        }
        self.bytes = bytes
    }
}
