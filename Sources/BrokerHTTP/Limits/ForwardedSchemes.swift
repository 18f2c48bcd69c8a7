import BrokerWire

/// The entries of `X-Forwarded-Proto`, of all its fields in order.
///
/// A proxy in front of another writes one entry, or appends its own as it does to `X-Forwarded-For`. An empty entry keeps its
/// place, because the entries before it would move to other proxies.
struct ForwardedSchemes: Sendable, Equatable {
    /// The result of a look at the entry that counts.
    enum Verdict: Sendable, Equatable {
        case secure
        /// Another scheme; `entry` counts from the right, from 1.
        case plain(entry: Int)
        /// Fewer entries than hops.
        case tooShort(entries: Int, hops: Int)
    }

    private let entries: [Substring]

    /// Splits the fields at their commas.
    init(_ fields: [String]) {
        entries = fields.flatMap { $0.split(separator: ",", omittingEmptySubsequences: false).map(Self.trimmed) }
    }

    /// Whether there are several entries, so that the hops choose one.
    var isList: Bool { entries.count > 1 }

    /// Judges the entry of the address at the end of a walk of so many hops.
    ///
    /// A walk of 0 hops gets the last entry, and every walk gets a single one.
    func verdict(behind hops: Int) -> Verdict {
        let number = isList ? max(hops, 1) : 1
        guard number <= entries.count else { return .tooShort(entries: entries.count, hops: number) }
        return Self.isSecure(entries[entries.count - number]) ? .secure : .plain(entry: number)
    }

    /// Whether a scheme is https, or the one of WebSockets over TLS that Traefik writes for it.
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
