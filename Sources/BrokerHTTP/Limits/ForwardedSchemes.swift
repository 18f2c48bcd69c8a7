import BrokerWire

/// The entries of all `X-Forwarded-Proto` fields, in order.
///
/// A proxy behind another proxy either writes a single entry, or appends its own entry as it does in `X-Forwarded-For`. An
/// empty entry counts, so that each other entry keeps its position and therefore its proxy.
struct ForwardedSchemes: Sendable, Equatable {
    /// The result of checking the entry that belongs to the client.
    enum Verdict: Sendable, Equatable {
        case secure
        /// The entry names another scheme than https.
        ///
        /// `entry` is its position from the right, beginning with 1.
        case plain(entry: Int)
        /// The list has fewer entries than `X-Forwarded-For` has hops.
        case tooShort(entries: Int, hops: Int)
    }

    private let entries: [Substring]

    /// Splits the fields at their commas.
    init(_ fields: [String]) {
        entries = fields.flatMap { $0.split(separator: ",", omittingEmptySubsequences: false).map(Self.trimmed) }
    }

    /// Whether there are several entries, so that the client's number of hops selects one.
    var isList: Bool { entries.count > 1 }

    /// Checks the entry that belongs to the client's address, behind the given number of trusted hops.
    ///
    /// The position of this entry, counted from the right, is the number of hops; for 0 hops, it is the right-most entry. A
    /// single entry counts for any number of hops.
    func verdict(behind hops: Int) -> Verdict {
        let number = isList ? max(hops, 1) : 1
        guard number <= entries.count else { return .tooShort(entries: entries.count, hops: number) }
        return Self.isSecure(entries[entries.count - number]) ? .secure : .plain(entry: number)
    }

    /// Whether a scheme is https, or `wss`, which Traefik writes for WebSockets over TLS.
    private static func isSecure(_ scheme: Substring) -> Bool {
        scheme.isASCIIEqual(to: "https") || scheme.isASCIIEqual(to: "wss")
    }

    private static func trimmed(_ entry: Substring) -> Substring {
        var entry = entry
        while let first = entry.utf8.first, first == 0x20 || first == 0x09 { entry = entry.dropFirst() }
        while let last = entry.utf8.last, last == 0x20 || last == 0x09 { entry = entry.dropLast() }
        return entry
    }
}
