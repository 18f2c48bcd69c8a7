import Broker

/// An ending in the endings file: the digest of the session's token, and the time and reason of its end.
///
/// A stolen file is harmless, because a digest is useless as a token and the session's user is left out.
struct EndingEntry: Sendable, Equatable {
    let tokenDigest: Digest
    let at: WallTime
    let reason: EndReason

    /// The sign before the time of an exported session's ending, whose reason in the line is `admin`.
    ///
    /// Earlier releases accept and ignore the sign.
    private static let exportedSign = "+"

    /// The entry as a line, with its line end.
    var line: String {
        let sign = reason == .exported ? Self.exportedSign : ""
        return EndingsLine.text([
            Base64URL.encode(tokenDigest.bytes), sign + String(at.milliseconds), reason.stored,
        ])
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
        let isExported = reason == .admin && words[1].hasPrefix(Self.exportedSign)
        self.init(
            tokenDigest: tokenDigest, at: WallTime(milliseconds: time), reason: isExported ? .exported : reason)
    }
}
