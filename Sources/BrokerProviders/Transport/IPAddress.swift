/// A numeric IP address as bytes: 4 or 16 of them.
struct IPAddress: Sendable, Equatable {
    let bytes: [UInt8]

    /// Parses dotted IPv4 or IPv6 text (no brackets, no zone), or returns nil.
    init?(_ text: String) {
        if let four = Self.four(text[...]) {
            bytes = four
        } else if let sixteen = Self.sixteen(text) {
            bytes = sixteen
        } else {
            return nil
        }
    }

    private static func four(_ text: Substring) -> [UInt8]? {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 4 else { return nil }
        let bytes = parts.compactMap { UInt8($0) }
        return bytes.count == 4 ? bytes : nil
    }

    private static func sixteen(_ text: String) -> [UInt8]? {
        let halves = text.split(separator: "::", omittingEmptySubsequences: false)
        guard text.contains(":"), halves.count <= 2, let head = halves.first.flatMap({ groups($0) }) else { return nil }
        guard halves.count == 2 else { return head.count == 16 ? head : nil }
        guard let tail = halves.last.flatMap({ groups($0) }), head.count + tail.count <= 14 else { return nil }
        return head + [UInt8](repeating: 0, count: 16 - head.count - tail.count) + tail
    }

    private static func groups(_ text: Substring) -> [UInt8]? {
        guard !text.isEmpty else { return [] }
        var bytes: [UInt8] = []
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        for (index, part) in parts.enumerated() {
            if index == parts.count - 1, part.contains(".") {
                guard let embedded = four(part) else { return nil }
                bytes += embedded
            } else {
                guard (1...4).contains(part.utf8.count), let value = UInt16(part, radix: 16) else { return nil }
                bytes += [UInt8(value >> 8), UInt8(value & 0xFF)]
            }
        }
        return bytes
    }

    /// Whether the address is 127.0.0.0/8 or ::1.
    var isLoopback: Bool {
        bytes.count == 4 ? bytes.first == 127 : bytes == [UInt8](repeating: 0, count: 15) + [1]
    }

    /// Whether the address is one of the public internet: not private, loopback, link-local, metadata, mapped,
    /// documentation, benchmark or multicast (SEC-74; the registries of RFC 6890).
    var isPublic: Bool {
        !Self.special(of: bytes.count).contains { matches($0.prefix, bits: $0.bits) }
            && (bytes.count == 4 || matches([0x20], bits: 3))
    }

    private func matches(_ prefix: [UInt8], bits: Int) -> Bool {
        for (index, byte) in bytes.enumerated() {
            let remaining = bits - index * 8
            guard remaining > 0 else { return true }
            let mask: UInt8 = remaining >= 8 ? 0xFF : ~(0xFF >> UInt8(remaining))
            let wanted = index < prefix.count ? prefix[index] : 0
            guard byte & mask == wanted & mask else { return false }
        }
        return true
    }

    private static func special(of length: Int) -> [(prefix: [UInt8], bits: Int)] { length == 4 ? special4 : special6 }

    private static let special4: [(prefix: [UInt8], bits: Int)] = [
        ([0], 8), ([10], 8), ([100, 64], 10), ([127], 8), ([169, 254], 16), ([172, 16], 12), ([192, 0, 0], 24),
        ([192, 0, 2], 24), ([192, 88, 99], 24), ([192, 168], 16), ([198, 18], 15), ([198, 51, 100], 24),
        ([203, 0, 113], 24), ([224], 4), ([240], 4),
    ]

    // Only 2000::/3 is public at all; within it Teredo, documentation and 6to4 are not.
    private static let special6: [(prefix: [UInt8], bits: Int)] = [
        ([0x20, 0x01, 0, 0], 23), ([0x20, 0x01, 0x0D, 0xB8], 32), ([0x20, 0x02], 16), ([0x3F, 0xFF], 20),
    ]
}
