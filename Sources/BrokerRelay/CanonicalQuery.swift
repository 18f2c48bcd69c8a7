/// A query as received, with what RFC 3986 does not allow percent-encoded, so that no URL parser behind us finds
/// anything to do: one character too many and `URL` encodes the whole query a second time.
package struct CanonicalQuery: Sendable, Equatable {
    /// The query without its `?`.
    package let text: String

    /// Encodes `raw`; returns nil when it holds a control byte, a space or `#`.
    package init?(_ raw: Substring) {
        if Self.isClean(raw.utf8) {
            self.text = String(raw)
            return
        }
        let bytes = Array(raw.utf8)
        var output: [UInt8] = []
        output.reserveCapacity(bytes.count &+ 16)
        for (index, byte) in bytes.enumerated() {
            switch byte {
            case 0...0x20, 0x7F, 0x23: return nil
            case 0x25 where Self.isEncoding(bytes.dropFirst(index + 1)): output.append(byte)
            default:
                if URIBytes.isQuery(byte) { output.append(byte) } else { URIBytes.appendEncoded(byte, to: &output) }
            }
        }
        self.text = String(decoding: output, as: UTF8.self)
    }

    /// Says whether nothing has to be done; a `%` takes the long way.
    private static func isClean(_ bytes: Substring.UTF8View) -> Bool {
        for byte in bytes where !URIBytes.isQuery(byte) { return false }
        return true
    }

    private static func isEncoding(_ rest: ArraySlice<UInt8>) -> Bool {
        let pair = rest.prefix(2)
        return pair.count == 2 && pair.allSatisfy { URIBytes.hex($0) != nil }
    }
}
