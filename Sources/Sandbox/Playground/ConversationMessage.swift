/// One arrow of the sequence diagram.
struct ConversationMessage: Sendable {
    /// The kind of arrow.
    enum Kind: String, Sendable { case request, answer, event, note }

    /// The owner of a lifeline.
    enum Party: String, Sendable { case app, broker, provider }

    /// The tone of its colour.
    enum Tone: String, Sendable {
        case plain, good, warning, bad

        /// The tone of a status.
        static func of(status: Int) -> Tone { status < 400 ? .good : status == 503 || status == 429 ? .warning : .bad }
    }

    /// Its place in the conversation; the conversation gives it.
    var number = 0
    var kind: Kind
    var from: Party
    var to: Party
    /// The name, where the lifeline's does not say it: the thief, the browser, another device, the API.
    var who = ""
    /// The text over the arrow.
    var title: String
    var tone = Tone.plain
    /// The whole of it, secrets shortened.
    var details = ""
    /// The curl line that does it again.
    var curl: String?

    /// The message as the page receives it.
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
