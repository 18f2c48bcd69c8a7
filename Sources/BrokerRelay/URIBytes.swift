/// The alphabet of RFC 3986 as the relay needs it.
enum URIBytes {
    /// What a byte may be in a path or query.
    private static let classes: [UInt8] = (0...255).map { byte in
        switch UInt8(truncatingIfNeeded: byte) {
        case 0x61...0x7A, 0x41...0x5A, 0x30...0x39, 0x2D, 0x2E, 0x5F, 0x7E: unreservedBit | pathBit | queryBit
        case 0x3B: queryBit  // `;` begins path parameters in servlet containers, so no path has one (SEC-73)
        case 0x21, 0x24, 0x26...0x2C, 0x3D, 0x3A, 0x40: pathBit | queryBit
        case 0x2F, 0x3F: queryBit
        default: 0
        }
    }
    private static let unreservedBit: UInt8 = 1
    private static let pathBit: UInt8 = 2
    private static let queryBit: UInt8 = 4

    /// Says whether `byte` is unreserved: the same with and without percent-encoding.
    static func isUnreserved(_ byte: UInt8) -> Bool { classes[Int(byte)] & unreservedBit != 0 }
    /// Says whether `byte` may stand in a path segment as it is; `;` may not.
    static func isSegment(_ byte: UInt8) -> Bool { classes[Int(byte)] & pathBit != 0 }
    /// Says whether `byte` may stand in a query as it is.
    static func isQuery(_ byte: UInt8) -> Bool { classes[Int(byte)] & queryBit != 0 }

    /// Returns the value of a hexadecimal digit, or nil.
    static func hex(_ byte: UInt8) -> UInt8? {
        switch byte {
        case 0x30...0x39: byte &- 0x30
        case 0x41...0x46: byte &- 0x37
        case 0x61...0x66: byte &- 0x57
        default: nil
        }
    }

    /// Appends `byte` to `output` as `%XX`, in the upper case that RFC 3986 section 6.2.2.1 prefers.
    static func appendEncoded(_ byte: UInt8, to output: inout [UInt8]) {
        output.append(0x25)
        output.append(digit(byte >> 4))
        output.append(digit(byte & 15))
    }

    private static func digit(_ value: UInt8) -> UInt8 { value < 10 ? 0x30 &+ value : 0x37 &+ value }
}
