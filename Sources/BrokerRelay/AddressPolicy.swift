package import NIOCore

/// Which addresses an upstream's connection may end at, checked after connecting, on the address that is really
/// there (SEC-74): what a name resolved to a moment ago does not count.
package enum AddressPolicy: Sendable, Equatable {
    /// Addresses of the public Internet only.
    case publicOnly
    /// Loopback only: the base URL names it.
    case loopbackOnly
    /// Anything: the operator marked the upstream as internal, or a proxy of his connects for us.
    case any

    /// Says whether a connection to `address` may be used; one without a known address may not.
    package func allows(_ address: SocketAddress?) -> Bool {
        switch self {
        case .any: true
        case .loopbackOnly: address.map(Self.isLoopback) ?? false
        case .publicOnly: address.map(Self.isPublic) ?? false
        }
    }

    /// Says whether `address` is 127.0.0.0/8 or ::1.
    package static func isLoopback(_ address: SocketAddress) -> Bool {
        switch bytes(of: address) {
        case .v4(let bytes): bytes.first == 127
        case .v6(let bytes): bytes.dropLast().allSatisfy { $0 == 0 } && bytes.last == 1
        case .other: false
        }
    }

    /// Says whether `address` is globally reachable by IANA's special-purpose registries.
    package static func isPublic(_ address: SocketAddress) -> Bool {
        switch bytes(of: address) {
        case .v4(let bytes): isPublic(v4: bytes)
        case .v6(let bytes): isPublic(v6: bytes)
        case .other: false
        }
    }

    private static func isPublic(v4 bytes: [UInt8]) -> Bool {
        guard bytes.count == 4 else { return false }
        return switch (bytes[0], bytes[1], bytes[2]) {
        case (0, _, _), (10, _, _), (127, _, _), (224..., _, _): false
        case (100, 64...127, _), (169, 254, _), (172, 16...31, _), (192, 168, _), (198, 18...19, _): false
        case (192, 0, 0), (192, 0, 2), (192, 88, 99), (198, 51, 100), (203, 0, 113): false
        default: true
        }
    }

    private static func isPublic(v6 bytes: [UInt8]) -> Bool {
        guard bytes.count == 16 else { return false }
        // NAT64's well-known prefix stands for the IPv4 address in it; every other embedding is refused.
        if bytes.starts(with: [0, 0x64, 0xFF, 0x9B, 0, 0, 0, 0, 0, 0, 0, 0]) {
            return isPublic(v4: Array(bytes.suffix(4)))
        }
        return switch (bytes[0], bytes[1], bytes[2], bytes[3]) {
        case (0x20, 0x01, 0x00...0x01, _): false  // Teredo, benchmarking, ORCHID: 2001::/23
        case (0x20, 0x01, 0x0D, 0xB8): false  // documentation
        case (0x20, 0x02, _, _): false  // 6to4
        case (0x3F, 0xFF, 0x00...0x0F, _): false  // documentation
        case (0x20...0x3F, _, _, _): true
        default: false
        }
    }

    private enum Bytes { case v4([UInt8]), v6([UInt8]), other }

    /// Reads the address out of the C structure: at byte 4 of `sockaddr_in`, at byte 8 of `sockaddr_in6`.
    private static func bytes(of address: SocketAddress) -> Bytes {
        let raw = address.withSockAddr { pointer, size in Array(UnsafeRawBufferPointer(start: pointer, count: size)) }
        return switch address {
        case .v4: .v4(Array(raw.dropFirst(4).prefix(4)))
        case .v6: .v6(Array(raw.dropFirst(8).prefix(16)))
        case .unixDomainSocket: .other
        }
    }
}
