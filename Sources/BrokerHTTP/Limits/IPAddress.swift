/// An IP address, IPv4 ones as IPv4-mapped IPv6, so that one comparison does for both.
package struct IPAddress: Sendable, Hashable {
    let high: UInt64
    let low: UInt64

    init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// Parses a textual address without port, brackets or zone, or returns nil when it is none.
    package init?(_ text: some StringProtocol) {
        guard text.utf8.count <= 45 else { return nil }
        if let four = Self.four(text) {
            self.init(high: 0, low: 0xFFFF_0000_0000 | UInt64(four))
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

    /// Whether it is an IPv4 address.
    var isFour: Bool { high == 0 && low >> 32 == 0xFFFF }

    /// Whether it is in `127.0.0.0/8` or is `::1`.
    package var isLoopback: Bool { isFour ? low >> 24 & 0xFF == 127 : high == 0 && low == 1 }

    /// The address that limits count by: an IPv6 client owns its whole /64.
    var limitKey: IPAddress { isFour ? self : IPAddress(high: high, low: 0) }

    private static func four(_ text: some StringProtocol) -> UInt32? {
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
        guard text.contains(":"), let first = halves.first, let front = list(String(first)) else { return nil }
        guard halves.count == 2, let last = halves.last else { return front.count == 8 ? front : nil }
        guard !last.contains("::"), let back = list(String(last)), front.count + back.count < 8 else { return nil }
        return front + Array(repeating: 0, count: 8 - front.count - back.count) + back
    }

    private static func list(_ text: String) -> [UInt16]? {
        guard !text.isEmpty else { return [] }
        var groups: [UInt16] = []
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        for (index, part) in parts.enumerated() {
            if index == parts.count - 1, part.contains("."), let four = four(part) {
                groups.append(UInt16(truncatingIfNeeded: four >> 16))
                groups.append(UInt16(truncatingIfNeeded: four))
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

/// A range of addresses (`10.0.0.0/8`), or one address.
package struct IPNetwork: Sendable, Hashable {
    private let address: IPAddress
    private let bits: Int

    /// Parses a CIDR range or a single address, or returns nil when it is neither.
    package init?(_ text: String) {
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let first = parts.first, let address = IPAddress(first) else { return nil }
        let width = address.isFour ? 32 : 128
        var bits = width
        if parts.count == 2 {
            guard let last = parts.last, (1...3).contains(last.utf8.count), let given = UInt8(last),
                Int(given) <= width
            else { return nil }
            bits = Int(given)
        }
        self.address = address
        self.bits = address.isFour ? bits + 96 : bits
    }

    /// Returns whether the address is in the range.
    package func contains(_ other: IPAddress) -> Bool {
        let highBits = min(bits, 64)
        let lowBits = max(bits - 64, 0)
        return Self.same(address.high, other.high, bits: highBits) && Self.same(address.low, other.low, bits: lowBits)
    }

    private static func same(_ left: UInt64, _ right: UInt64, bits: Int) -> Bool {
        // A shift by all 64 bits gives 0 here: Swift's `>>` does not trap on it.
        (left ^ right) >> UInt64(64 - bits) == 0
    }
}
