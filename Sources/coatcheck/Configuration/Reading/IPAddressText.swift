import NIOCore

/// Reads IP addresses through the system's own parser.
enum IPAddressText {
    /// Returns the 4 or 16 bytes of an address in network order, or nil when the text is none.
    static func parse(_ text: String) -> [UInt8]? {
        guard !text.contains("%"), let address = try? SocketAddress(ipAddress: text, port: 0) else { return nil }
        let raw = address.withSockAddr { pointer, size in Array(UnsafeRawBufferPointer(start: pointer, count: size)) }
        // The address stands at byte 4 of `sockaddr_in` and at byte 8 of `sockaddr_in6`.
        return switch address {
        case .v4: Array(raw.dropFirst(4).prefix(4))
        case .v6: Array(raw.dropFirst(8).prefix(16))
        case .unixDomainSocket: nil
        }
    }
}
