import Broker

/// The text of a notice: its version, its origin, and `reason:digest` for each session.
enum EndingPayload {
    /// PostgreSQL takes less than 8000 bytes.
    private static let maximumLength = 7_900

    /// Returns a name that no other process has.
    static func origin() -> String { String(UInt64.random(in: .min ... .max), radix: 36) }

    /// Writes the sessions into as many texts as they need.
    static func encode(_ ended: [EndedSession], origin: String) -> [String] {
        var texts: [String] = []
        var text = ""
        for session in ended {
            let item = " \(session.reason.rawValue):\(Base64URL.encode(session.token.bytes))"
            if text.isEmpty || text.utf8.count + item.utf8.count > maximumLength {
                if !text.isEmpty { texts.append(text) }
                text = "1 \(origin)"
            }
            text += item
        }
        return text.isEmpty ? texts : texts + [text]
    }

    /// Reads a text; nil when it is this process's own or no notice of ours.
    ///
    /// Whoever may use the database may write one: what is not well formed is left out. A reason that this version does not
    /// know is called `admin`: the session has ended all the same.
    static func decode(_ text: String, origin: String) -> [EndedSession]? {
        let parts = text.split(separator: " ", omittingEmptySubsequences: true)
        guard parts.count >= 2, parts[0] == "1", parts[1] != origin else { return nil }
        return parts.dropFirst(2).compactMap { part in
            let pair = part.split(separator: ":", maxSplits: 1)
            guard pair.count == 2, let bytes = Base64URL.decode(String(pair[1])), let token = Digest(bytes) else {
                return nil
            }
            return EndedSession(token: token, reason: EndReason(rawValue: String(pair[0])) ?? .admin)
        }
    }
}
