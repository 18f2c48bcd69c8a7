import Broker
import Foundation
import Glibc
import Logging

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
