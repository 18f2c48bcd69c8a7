/// One message, which the page shows as an arrow of the sequence diagram.
struct ConversationMessage: Sendable {
    /// The kind of arrow.
    enum Kind: String, Sendable { case request, answer, event, note }

    /// The party at one lifeline of the diagram.
    enum Party: String, Sendable { case app, broker, provider }

    /// The meaning of a message's colour.
    enum Tone: String, Sendable {
        case plain, good, warning, bad

        /// Returns the tone for an HTTP status.
        static func of(status: Int) -> Tone { status < 400 ? .good : status == 503 || status == 429 ? .warning : .bad }
    }

    /// The message's number, which the conversation assigns.
    var number = 0
    var kind: Kind
    var from: Party
    var to: Party
    /// The sender's name, if several parties share one lifeline of the diagram: the thief, the browser, another device, the
    /// API.
    var who = ""
    /// The text above the arrow.
    var title: String
    var tone = Tone.plain
    /// The text of the whole message, with shortened secrets.
    var details = ""
    /// The curl line that repeats the request.
    var curl: String?

    /// The message as JSON, as the page reads it.
    var json: JSON {
        var out: JSON = [
            "number": .int(number), "kind": .string(kind.rawValue), "from": .string(from.rawValue),
            "to": .string(to.rawValue), "who": .string(who), "title": .string(title), "tone": .string(tone.rawValue),
            "details": .string(details),
        ]
        if let curl { out["curl"] = .string(curl) }
        return out
    }
}
