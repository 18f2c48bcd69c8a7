/// An IP address of either family.
///
/// An IPv4 address is stored as its IPv4-mapped IPv6 address, so that one comparison serves both families.
package struct IPAddress: Sendable, Hashable {
    /// The first 64 bits.
    package let high: UInt64
    /// The last 64 bits.
    package let low: UInt64

    /// Creates an address from its 128 bits; an IPv4 address is in the last 32 bits, after `ffff`.
    package init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// Creates an IPv4 address from its 32 bits.
    package init(v4 bits: UInt32) { self.init(high: 0, low: 0xFFFF_0000_0000 | UInt64(bits)) }

    /// Parses a textual address without port, brackets or zone, or returns nil.
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

    /// Parses the address in a URL's host; returns nil if the host is a name.
    ///
    /// An IPv6 address has to be in brackets.
    package init?(urlHost host: some StringProtocol) {
        guard host.contains(":") else {
            self.init(host)
            return
        }
        guard host.hasPrefix("["), host.hasSuffix("]") else { return nil }
        self.init(host.dropFirst().dropLast())
    }

    /// Whether this is an IPv4 address.
    package var isIPv4: Bool { high == 0 && low >> 32 == 0xFFFF }

    /// Whether the address is in `127.0.0.0/8` or is `::1`.
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
            // Some programs read a number with a leading zero as octal, others as decimal.
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
            // A dotted part is allowed only as the last 32 bits of the whole address.
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
    /// The address as text: dotted for IPv4, according to RFC 5952 for IPv6.
    package var description: String {
        if isIPv4 { return part(low, 24, 8) + "." + part(low, 16, 8) + "." + part(low, 8, 8) + "." + part(low, 0, 8) }
        let groups: [String] = [high, low].flatMap { half in
            [48, 32, 16, 0].map { part(half, $0, 16) }
        }
        // The longest run of two or more zeros; of equally long runs, the first.
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

extension IPAddress {
    /// Whether the address is one of the public Internet (SEC-74).
    ///
    /// An IPv4-mapped or NAT64 address is judged by the IPv4 address in it. 6to4, Teredo and IPv4-compatible addresses are
    /// never public. If a translator's prefix belongs to the network's own address space, translated private addresses look
    /// public.
    package var isPublic: Bool {
        if SpecialPurposeAddresses.translated.contains(self) {
            return IPAddress(v4: UInt32(truncatingIfNeeded: low)).isPublic
        }
        if SpecialPurposeAddresses.locallyTranslated.contains(self) { return isPubliclyTranslated }
        guard isIPv4 || SpecialPurposeAddresses.globalUnicast.contains(self) else { return false }
        return !SpecialPurposeAddresses.ranges.contains { $0.contains(self) }
    }

    /// Whether the address is in a private network (private, shared or unique local), or is this machine's.
    ///
    /// Link-local addresses are excluded, because a cloud's metadata service has one.
    package var isOfOwnNetwork: Bool {
        isLoopback || SpecialPurposeAddresses.ownNetworks.contains { $0.contains(self) }
    }

    /// Whether the IPv4 address inside is public for each possible prefix: 48, 56, 64 and 96 bits (RFC 6052 section 2.2).
    ///
    /// The length of the prefix is unknown here, so the IPv4 address must be public for every length. Results in "this network"
    /// (`0.0.0.0/8`) are ignored, because translators send nothing there. They only contain the zeros next to the real address.
    private var isPubliclyTranslated: Bool {
        let at48: UInt64 = high << 16 & 0xFFFF_0000 | low >> 40 & 0xFFFF
        let at56: UInt64 = high << 24 & 0xFF00_0000 | low >> 32 & 0xFF_FFFF
        let at64: UInt64 = low >> 24 & 0xFFFF_FFFF
        let at96: UInt64 = low & 0xFFFF_FFFF
        let readings = [at48, at56, at64, at96].filter { $0 >> 24 != 0 }
        return !readings.isEmpty && readings.allSatisfy { IPAddress(v4: UInt32(truncatingIfNeeded: $0)).isPublic }
    }
}

/// The addresses outside the public Internet, in one table that decides about every outgoing connection (SEC-74).
///
/// The rows are:
///
/// - the entries of IANA's special-purpose registries for IPv4 and IPv6 (RFC 6890), as of 2025, unless "globally reachable" is
///   true,
/// - the multicast spaces,
/// - the addresses of clouds' services for their own hosts.
///
/// Of the metadata services, only Azure's has an address that is public according to the registries. The other services are in
/// these rows:
///
/// - link-local: `169.254.169.254` of AWS, Google, Azure and others, `169.254.170.2` and `.23` of ECS and EKS, `169.254.0.23`
///   of Tencent, `169.254.42.42` of Scaleway,
/// - shared: `100.100.100.200` of Alibaba,
/// - protocol assignments: `192.0.0.192` of Oracle's classic cloud,
/// - unique local: `fd00:ec2::254` and `::23` of AWS, `fd20:ce::254` of Google, `fd00:42::42` of Scaleway.
enum SpecialPurposeAddresses {
    /// Ranges that are not publicly reachable.
    static let ranges: [IPNetwork] = [
        v4(0, 0, 0, 0, 8),  // "this network", RFC 791
        v4(10, 0, 0, 0, 8),  // private use, RFC 1918
        v4(100, 64, 0, 0, 10),  // shared by carriers, RFC 6598
        v4(127, 0, 0, 0, 8),  // loopback, RFC 1122
        v4(168, 63, 129, 16, 32),  // Azure's host agent: learn.microsoft.com, "What is IP address 168.63.129.16?"
        v4(169, 254, 0, 0, 16),  // link-local, RFC 3927
        v4(172, 16, 0, 0, 12),  // private use, RFC 1918
        v4(192, 0, 0, 0, 24),  // protocol assignments, RFC 6890
        v4(192, 0, 2, 0, 24),  // documentation, RFC 5737
        v4(192, 88, 99, 0, 24),  // relays of 6to4, RFC 7526
        v4(192, 168, 0, 0, 16),  // private use, RFC 1918
        v4(198, 18, 0, 0, 15),  // benchmarks, RFC 2544
        v4(198, 51, 100, 0, 24),  // documentation, RFC 5737
        v4(203, 0, 113, 0, 24),  // documentation, RFC 5737
        v4(224, 0, 0, 0, 4),  // multicast, RFC 5771
        v4(240, 0, 0, 0, 4),  // reserved, broadcast among them, RFC 1112
        v6(0, 96),  // unspecified, loopback and the old IPv4-compatible form, RFC 4291
        v6(0x0100 << 48, 64),  // discard only, RFC 6666
        v6(0x0100 << 48 | 1, 64),  // dummy prefix, RFC 9780
        v6(0x2001 << 48, 23),  // protocol assignments, Teredo (RFC 4380), benchmarks and ORCHID among them, RFC 2928
        v6(0x2001_0DB8 << 32, 32),  // documentation, RFC 3849
        v6(0x2002 << 48, 16),  // 6to4, with any IPv4 address inside, RFC 3056
        v6(0x3FFF << 48, 20),  // documentation, RFC 9637
        v6(0x5F00 << 48, 16),  // segment routing, RFC 9602
        v6(0xFC00 << 48, 7),  // unique local, RFC 4193
        v6(0xFE80 << 48, 10),  // link-local, RFC 4291
        v6(0xFEC0 << 48, 10),  // site-local, RFC 3879
        v6(0xFF00 << 48, 8),  // multicast, RFC 4291
    ]

    /// The ranges of private networks, such as clusters, companies and homes.
    static let ownNetworks: [IPNetwork] = [
        v4(10, 0, 0, 0, 8), v4(172, 16, 0, 0, 12), v4(192, 168, 0, 0, 16),  // RFC 1918
        v4(100, 64, 0, 0, 10),  // RFC 6598, which some clusters use for pods
        v6(0xFC00 << 48, 7),  // RFC 4193
    ]

    /// The block that IANA has allocated for IPv6 global unicast; all other IPv6 addresses are treated as special.
    static let globalUnicast = v6(0x2000 << 48, 3)

    /// NAT64's well-known prefix (RFC 6052), followed by 32 bits with the IPv4 address.
    static let translated = v6(0x0064_FF9B << 32, 96)

    /// NAT64's prefix for local use (RFC 8215); a network may use any part of it, from /48 to /96.
    static let locallyTranslated = v6(0x0064_FF9B_0001 << 16, 48)

    private static func v4(_ a: UInt32, _ b: UInt32, _ c: UInt32, _ d: UInt32, _ prefixLength: Int) -> IPNetwork {
        IPNetwork(IPAddress(v4: a << 24 | b << 16 | c << 8 | d), prefixLength: prefixLength)
    }

    private static func v6(_ high: UInt64, _ prefixLength: Int) -> IPNetwork {
        IPNetwork(IPAddress(high: high, low: 0), prefixLength: prefixLength)
    }
}
