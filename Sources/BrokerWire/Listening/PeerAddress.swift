import NIOCore

/// A TCP peer's address as 128 bits.
///
/// IPv4 addresses are mapped into IPv6 (RFC 4291 section 2.5.5.2).
package struct PeerAddress: Sendable, Hashable {
    package let high: UInt64
    package let low: UInt64

    /// Creates an address from its halves.
    package init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// Creates the address of a socket; nil for a Unix socket.
    init?(_ address: SocketAddress) {
        // The offset and length of the address in `sockaddr_in` and `sockaddr_in6`; the bytes are in network order.
        let (offset, count) =
            switch address.protocol {
            case .inet: (4, 4)
            case .inet6: (8, 16)
            default: (0, 0)
            }
        let bytes: [UInt8] = address.withSockAddr { pointer, size in
            guard size >= offset + count else { return [] }
            return Array(UnsafeRawBufferPointer(start: pointer, count: size)[offset..<(offset + count)])
        }
        switch bytes.count {
        case 4: self.init(high: 0, low: bytes.reduce(0xFFFF) { $0 << 8 | UInt64($1) })
        case 16:
            self.init(
                high: bytes.prefix(8).reduce(0) { $0 << 8 | UInt64($1) },
                low: bytes.suffix(8).reduce(0) { $0 << 8 | UInt64($1) })
        default: return nil
        }
    }
}
