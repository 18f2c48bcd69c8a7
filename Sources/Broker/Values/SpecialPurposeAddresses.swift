/// The addresses that are no part of the public Internet, in the one table that every outgoing connection is judged by
/// (SEC-74).
///
/// The rows are IANA's special-purpose registries for IPv4 and IPv6 (RFC 6890) as of 2025 wherever "globally reachable" is
/// not true, the multicast spaces, and what clouds answer their own hosts on. Of the metadata services only Azure's has
/// an address that the registries take for a public one; the rest lie in the rows for link-local (`169.254.169.254` of
/// AWS, Google, Azure and others, `169.254.170.2` and `.23` of ECS and EKS, `169.254.0.23` of Tencent, `169.254.42.42` of
/// Scaleway), shared (`100.100.100.200` of Alibaba), protocol assignments (`192.0.0.192` of Oracle's classic cloud) and
/// unique local addresses (`fd00:ec2::254` and `::23` of AWS, `fd20:ce::254` of Google, `fd00:42::42` of Scaleway).
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
        v6(0x2002 << 48, 16),  // 6to4, with whatever IPv4 address inside, RFC 3056
        v6(0x3FFF << 48, 20),  // documentation, RFC 9637
        v6(0x5F00 << 48, 16),  // segment routing, RFC 9602
        v6(0xFC00 << 48, 7),  // unique local, RFC 4193
        v6(0xFE80 << 48, 10),  // link-local, RFC 4291
        v6(0xFEC0 << 48, 10),  // site-local, RFC 3879
        v6(0xFF00 << 48, 8),  // multicast, RFC 4291
    ]

    /// What IANA has allocated as IPv6 global unicast; nothing else of IPv6 is public, whatever it will be used for.
    static let globalUnicast = v6(0x2000 << 48, 3)

    /// NAT64's well-known prefix (RFC 6052): the IPv4 address is the last 32 bits.
    static let translated = v6(0x0064_FF9B << 32, 96)

    /// NAT64's prefix for local use (RFC 8215): a network takes /48 to /96 of it as it likes.
    static let locallyTranslated = v6(0x0064_FF9B_0001 << 16, 48)

    private static func v4(_ a: UInt32, _ b: UInt32, _ c: UInt32, _ d: UInt32, _ prefixLength: Int) -> IPNetwork {
        IPNetwork(IPAddress(v4: a << 24 | b << 16 | c << 8 | d), prefixLength: prefixLength)
    }

    private static func v6(_ high: UInt64, _ prefixLength: Int) -> IPNetwork {
        IPNetwork(IPAddress(high: high, low: 0), prefixLength: prefixLength)
    }
}
