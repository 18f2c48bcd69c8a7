import Broker
import Logging

/// The log of this process: a level, a clock and where lines go.
struct ProcessLog: Sendable {
    let threshold: LogThreshold
    let now: @Sendable () -> WallTime
    /// Takes a finished line.
    let emit: @Sendable ([UInt8]) -> Void

    init(
        level: LogSettings.Level, now: @escaping @Sendable () -> WallTime, emit: @escaping @Sendable ([UInt8]) -> Void
    ) {
        threshold = LogThreshold(level)
        self.now = now
        self.emit = emit
    }

    /// Members that are numbers, and are written as such.
    private static let numbers: Set<String> = [
        "at_most_ms", "changes", "count", "delay_ms", "port", "providers_kept", "providers_made", "requests", "status",
        "streams", "took_ms",
    ]

    /// Returns whether lines of this level are written.
    func takes(_ level: LogSettings.Level) -> Bool { threshold.takes(level) }

    /// Writes a line.
    ///
    /// What a request wanted has its id, and the trace's. Members are our own words or have been reduced to a fixed set; no
    /// secret may be among them.
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
    /// Orders the levels.
    var rank: Int { Self.allCases.firstIndex(of: self) ?? 0 }
}

/// Writes swift-log's events as JSON lines: ours, and those of the libraries that take a logger.
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
        for (name, value) in all.sorted(by: { $0.key < $1.key }).prefix(32) { line.add(name, value.description) }
        line.add(RequestScope.current)
        sink.write(line.finished())
    }
}
