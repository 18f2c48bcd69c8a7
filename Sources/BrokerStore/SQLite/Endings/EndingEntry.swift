import Broker

/// An ending in the endings file: the digest of the session's token, and the time and reason of its end.
///
/// A stolen file is harmless, because a digest is useless as a token and the session's user is left out.
struct EndingEntry: Sendable, Equatable {
    let tokenDigest: Digest
    let at: WallTime
    let reason: EndReason

    /// The entry as a line, with its line end.
    var line: String {
        EndingsLine.text([Base64URL.encode(tokenDigest.bytes), String(at.milliseconds), reason.rawValue])
    }

    init(tokenDigest: Digest, at: WallTime, reason: EndReason) {
        self.tokenDigest = tokenDigest
        self.at = at
        self.reason = reason
    }

    /// Reads a line, which is given without its line end; nil for a foreign or damaged line.
    init?(line: some Collection<UInt8>) {
        guard let words = EndingsLine.words(line), words.count == 3,
            let tokenDigest = Base64URL.decode(words[0]).flatMap({ Digest($0) }), let time = Int64(words[1]),
            let reason = EndReason(rawValue: String(words[2]))
        else { return nil }
        self.init(tokenDigest: tokenDigest, at: WallTime(milliseconds: time), reason: reason)
    }
}
