import Broker

/// A line of the endings file: which session ended, when and why, and a check of the line itself.
///
/// A digest opens nothing, and no line says whose session it was.
struct EndingEntry: Sendable, Equatable {
    let token: Digest
    let at: WallTime
    let reason: EndReason

    /// The line, with its end.
    var line: String {
        EndingsLine.text([Base64URL.encode(token.bytes), String(at.milliseconds), reason.rawValue])
    }

    init(token: Digest, at: WallTime, reason: EndReason) {
        self.token = token
        self.at = at
        self.reason = reason
    }

    /// Reads a line without its end; nil where it is none of ours, or damaged.
    init?(line: some Collection<UInt8>) {
        guard let words = EndingsLine.words(line), words.count == 3,
            let token = Base64URL.decode(words[0]).flatMap({ Digest($0) }), let time = Int64(words[1]),
            let reason = EndReason(rawValue: String(words[2]))
        else { return nil }
        self.init(token: token, at: WallTime(milliseconds: time), reason: reason)
    }
}
