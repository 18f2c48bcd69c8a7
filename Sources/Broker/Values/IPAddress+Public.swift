extension IPAddress {
    /// Whether the address is one of the public Internet (SEC-74).
    ///
    /// An IPv4-mapped or NAT64 address is judged by the IPv4 address inside; 6to4, Teredo and IPv4-compatible ones are
    /// never public. A translator with a prefix out of its network's own space cannot be told from a public address.
    package var isPublic: Bool {
        if SpecialPurposeAddresses.translated.contains(self) {
            return IPAddress(v4: UInt32(truncatingIfNeeded: low)).isPublic
        }
        if SpecialPurposeAddresses.locallyTranslated.contains(self) { return isPubliclyTranslated }
        guard isIPv4 || SpecialPurposeAddresses.globalUnicast.contains(self) else { return false }
        return !SpecialPurposeAddresses.ranges.contains { $0.contains(self) }
    }

    /// Whether the address inside is public, wherever a prefix of 48, 56, 64 or 96 bits puts it (RFC 6052 section 2.2).
    ///
    /// The length is not known here: no reading may be special, but those that only found the zeros beside the real
    /// one and say "this network", where no translator sends anything.
    private var isPubliclyTranslated: Bool {
        let at48: UInt64 = high << 16 & 0xFFFF_0000 | low >> 40 & 0xFFFF
        let at56: UInt64 = high << 24 & 0xFF00_0000 | low >> 32 & 0xFF_FFFF
        let at64: UInt64 = low >> 24 & 0xFFFF_FFFF
        let at96: UInt64 = low & 0xFFFF_FFFF
        let readings = [at48, at56, at64, at96].filter { $0 >> 24 != 0 }
        return !readings.isEmpty && readings.allSatisfy { IPAddress(v4: UInt32(truncatingIfNeeded: $0)).isPublic }
    }
}
