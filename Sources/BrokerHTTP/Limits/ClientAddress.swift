import Broker

/// The address of the client behind trusted proxies (SEC-104), which is the right-most hop that is not a trusted proxy.
struct ClientAddress: Sendable, Equatable {
    /// The address; nil if unknown.
    let address: IPAddress?
    /// The client's address as text, for the log.
    let text: String
    /// The number of `X-Forwarded-For` entries that were used.
    let hops: Int

    /// Reads `X-Forwarded-For` from the right as long as the previous hop is trusted.
    ///
    /// Reading ends at a malformed entry. The client is then the hop that was read before this entry.
    init(peer: IPAddress?, peerText: String, forwardedFor: [String], trusted: [IPNetwork]) {
        var address = peer
        var text = peerText
        // The field of an untrusted peer is ignored unparsed.
        var hops = 0
        var rest = Rest(fields: forwardedFor[...])
        while let current = address, trusted.contains(where: { $0.contains(current) }), let hop = rest.popLast() {
            guard let next = Self.hop(hop) else { break }
            address = next.address
            text = next.text
            hops += 1
        }
        self.hops = hops
        self.address = address
        self.text = text
    }

    /// The part of the fields that has not been read yet; reading goes from right to left.
    private struct Rest {
        var fields: ArraySlice<String>
        var field: Substring?

        mutating func popLast() -> Substring? {
            if field == nil { field = fields.popLast()?[...] }
            guard let text = field else { return nil }
            guard let comma = text.utf8.lastIndex(of: UInt8(ascii: ",")) else {
                field = nil
                return text
            }
            field = text[..<comma]
            return text[text.utf8.index(after: comma)...]
        }
    }

    private static func hop(_ entry: Substring) -> (address: IPAddress, text: String)? {
        var text = entry
        while let first = text.utf8.first, first == 0x20 || first == 0x09 { text = text.dropFirst() }
        while let last = text.utf8.last, last == 0x20 || last == 0x09 { text = text.dropLast() }
        if text.hasPrefix("["), let end = text.firstIndex(of: "]") {
            let rest = text[text.index(after: end)...]
            guard rest.isEmpty || Self.isPort(rest) else { return nil }
            text = text[text.index(after: text.startIndex)..<end]
        } else if let colon = text.lastIndex(of: ":"), text.contains("."), !text[..<colon].contains(":") {
            guard Self.isPort(text[colon...]) else { return nil }
            text = text[..<colon]
        }
        guard let address = IPAddress(text) else { return nil }
        return (address, String(text))
    }

    private static func isPort(_ text: Substring) -> Bool {
        text.utf8.first == UInt8(ascii: ":") && (2...6).contains(text.utf8.count)
            && text.utf8.dropFirst().allSatisfy { (0x30...0x39).contains($0) }
    }
}
