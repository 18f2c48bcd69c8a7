/// An IP address of either family; an IPv4 one is held as its IPv4-mapped IPv6 address, so that one comparison does for
/// both.
package struct IPAddress: Sendable, Hashable {
    /// The first 64 bits.
    package let high: UInt64
    /// The last 64 bits.
    package let low: UInt64

    /// Creates an address from its 128 bits; an IPv4 address stands in the last 32, with `ffff` before them.
    package init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// Creates an IPv4 address from its 32 bits.
    package init(v4 bits: UInt32) { self.init(high: 0, low: 0xFFFF_0000_0000 | UInt64(bits)) }

    /// Parses a textual address without port, brackets or zone, or returns nil when it is none.
    package init?(_ text: some StringProtocol) {
        guard text.utf8.count <= 45 else { return nil }
        if let bits = Self.bits4(text) {
            self.init(v4: bits)
            return
        }
        guard let groups = Self.groups(text) else { return nil }
        var high: UInt64 = 0
        var low: UInt64 = 0
        for (index, group) in groups.enumerated() {
            if index < 4 { high = high << 16 | UInt64(group) } else { low = low << 16 | UInt64(group) }
        }
        self.init(high: high, low: low)
    }

    /// Parses the host of a URL, an IPv6 address in its brackets, or returns nil when it is no address.
    package init?(urlHost host: some StringProtocol) {
        guard host.contains(":") else {
            self.init(host)
            return
        }
        guard host.hasPrefix("["), host.hasSuffix("]") else { return nil }
        self.init(host.dropFirst().dropLast())
    }

    /// Whether it is an IPv4 address.
    package var isIPv4: Bool { high == 0 && low >> 32 == 0xFFFF }

    /// Whether it is in `127.0.0.0/8` or is `::1`.
    package var isLoopback: Bool { isIPv4 ? low >> 24 & 0xFF == 127 : high == 0 && low == 1 }

    /// Returns whether a URL's host is `localhost` or a loopback address.
    package static func isLoopback(urlHost host: some StringProtocol) -> Bool {
        host == "localhost" || IPAddress(urlHost: host)?.isLoopback ?? false
    }

    private static func bits4(_ text: some StringProtocol) -> UInt32? {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 4 else { return nil }
        var value: UInt32 = 0
        for part in parts {
            // A leading zero is octal to some readers and decimal to others.
            guard (1...3).contains(part.utf8.count), part.utf8.allSatisfy({ (0x30...0x39).contains($0) }),
                part.utf8.count == 1 || part.utf8.first != 0x30, let number = UInt8(part)
            else { return nil }
            value = value << 8 | UInt32(number)
        }
        return value
    }

    private static func groups(_ text: some StringProtocol) -> [UInt16]? {
        let halves = text.split(separator: "::", maxSplits: 1, omittingEmptySubsequences: false)
        guard text.contains(":"), let first = halves.first, let front = list(String(first), isEnd: halves.count == 1)
        else { return nil }
        guard halves.count == 2, let last = halves.last else { return front.count == 8 ? front : nil }
        guard !last.contains("::"), let back = list(String(last), isEnd: true), front.count + back.count < 8 else {
            return nil
        }
        return front + Array(repeating: 0, count: 8 - front.count - back.count) + back
    }

    private static func list(_ text: String, isEnd: Bool) -> [UInt16]? {
        guard !text.isEmpty else { return [] }
        var groups: [UInt16] = []
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        for (index, part) in parts.enumerated() {
            // Dotted only as the last 32 bits of the whole address.
            if isEnd, index == parts.count - 1, part.contains("."), let bits = bits4(part) {
                groups.append(UInt16(truncatingIfNeeded: bits >> 16))
                groups.append(UInt16(truncatingIfNeeded: bits))
                continue
            }
            guard (1...4).contains(part.utf8.count), part.utf8.allSatisfy({ $0 != 0x2B && $0 != 0x2D }),
                let group = UInt16(part, radix: 16)
            else { return nil }
            groups.append(group)
        }
        return groups.count <= 8 ? groups : nil
    }
}

extension IPAddress: CustomStringConvertible {
    /// The address as text: dotted for IPv4, after RFC 5952 for IPv6.
    package var description: String {
        if isIPv4 { return part(low, 24, 8) + "." + part(low, 16, 8) + "." + part(low, 8, 8) + "." + part(low, 0, 8) }
        let groups: [String] = [high, low].flatMap { half in
            [48, 32, 16, 0].map { part(half, $0, 16) }
        }
        // The longest run of two zeros or more, the first of those that are as long as each other.
        var zeros = 0..<0
        for start in groups.indices {
            let count = groups[start...].prefix { $0 == "0" }.count
            if count > max(zeros.count, 1) { zeros = start..<start + count }
        }
        guard !zeros.isEmpty else { return groups.joined(separator: ":") }
        let front = groups[..<zeros.lowerBound].joined(separator: ":")
        return front + "::" + groups[zeros.upperBound...].joined(separator: ":")
    }

    private func part(_ half: UInt64, _ shift: UInt64, _ bits: UInt64) -> String {
        let value: UInt64 = half >> shift & (1 << bits - 1)
        return String(value, radix: bits == 8 ? 10 : 16)
    }
}
