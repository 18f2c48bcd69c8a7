import Foundation

/// A reader of server-sent events from pieces of any size.
struct EventLines {
    private var rest = Data()
    private var name = ""
    private var data = ""

    /// Takes a piece, and returns the events that it completes.
    mutating func take(_ piece: Data) -> [SessionEvent] {
        rest.append(piece)
        var events: [SessionEvent] = []
        while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
            let line = String(decoding: rest[rest.startIndex..<end], as: UTF8.self)
            rest = Data(rest[rest.index(after: end)...])
            if line.isEmpty {
                if let event { events.append(event) }
                (name, data) = ("", "")
            } else if line.hasPrefix("event: ") {
                name = String(line.dropFirst(7))
            } else if line.hasPrefix("data: ") {
                data += line.dropFirst(6)
            }
        }
        return events
    }

    private struct Ended: Decodable { var reason: String? }

    private var event: SessionEvent? {
        let body = Data(data.utf8)
        switch name {
        case "session": return (try? Coding.decoder().decode(Session.self, from: body)).map { .session($0) }
        case "tokens_refreshed": return .tokensRefreshed
        case "session_ended": return .ended(reason: (try? Coding.decoder().decode(Ended.self, from: body))?.reason)
        default: return nil
        }
    }
}
