/// Parses server-sent events from the arriving bytes.
struct EventParser: Sendable {
    private var line: [UInt8] = []
    private var name = ""
    private var data: [String] = []

    /// Adds bytes of the stream; returns the events that are now complete.
    ///
    /// Comments are skipped.
    mutating func take(_ bytes: some Sequence<UInt8>) -> [(name: String, data: String)] {
        var events: [(name: String, data: String)] = []
        for byte in bytes {
            guard byte == UInt8(ascii: "\n") else {
                if byte != UInt8(ascii: "\r") { line.append(byte) }
                continue
            }
            let text = String(decoding: line, as: UTF8.self)
            line.removeAll()
            if text.isEmpty {
                if !data.isEmpty { events.append((name.isEmpty ? "message" : name, data.joined(separator: "\n"))) }
                name = ""
                data = []
            } else if text.hasPrefix("event:") {
                name = String(text.dropFirst("event:".count)).trimmingSpaces
            } else if text.hasPrefix("data:") {
                data.append(String(text.dropFirst("data:".count)).trimmingSpaces)
            }
        }
        return events
    }
}
