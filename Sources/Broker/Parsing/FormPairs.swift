/// Parses `application/x-www-form-urlencoded` text, as a query or a body, strictly: bounded, valid UTF-8 after decoding,
/// no half escapes, no control bytes, and no name twice (SEC-11).
package struct FormPairs: Sendable, Equatable {
    /// The decoded pairs, in order; the names differ, but for those that may be repeated.
    package let pairs: [(name: String, value: String)]

    package static func == (left: FormPairs, right: FormPairs) -> Bool {
        left.pairs.count == right.pairs.count
            && zip(left.pairs, right.pairs).allSatisfy { $0.name == $1.name && $0.value == $1.value }
    }

    /// The reason for which a text was refused.
    package enum Failure: Error, Sendable, Equatable {
        case tooManyPairs, malformed
        /// A name that stands twice.
        case duplicate(String)
    }

    /// Creates pairs that were parsed before.
    init(unchecked pairs: [(name: String, value: String)]) { self.pairs = pairs }

    /// Parses the text; at most `maximumPairs` of them, and but for one name none twice.
    package init(
        parsing text: some StringProtocol, maximumPairs: Int = 64, repeatable: String? = nil
    ) throws(Failure) {
        try self.init(Array(text.utf8), maximumPairs, repeatable)
    }

    private init(_ text: [UInt8], _ maximumPairs: Int, _ repeatable: String?) throws(Failure) {
        var pairs: [(name: String, value: String)] = []
        var names: Set<[UInt8]> = []
        if !text.isEmpty {
            // What is behind the last pair that may be is one part, however many `&` it has.
            let parts = text.split(
                separator: UInt8(ascii: "&"), maxSplits: max(maximumPairs, 0), omittingEmptySubsequences: false)
            for part in parts {
                guard pairs.count < maximumPairs else { throw .tooManyPairs }
                let equals = part.firstIndex(of: UInt8(ascii: "="))
                guard let name = Self.decoded(part[..<(equals ?? part.endIndex)]), !name.isEmpty,
                    let value = Self.decoded(equals.map { part[($0 + 1)...] } ?? part[part.endIndex...])
                else { throw .malformed }
                guard repeatable?.hasBytes(of: name) == true || Self.isNew(name, among: pairs, &names) else {
                    throw .duplicate(name)
                }
                pairs.append((name, value))
            }
        }
        self.pairs = pairs
    }

    /// Returns whether there is no pair of that name, in time that the text's author cannot choose; `names` has them all once they
    /// are too many to look through.
    private static func isNew(
        _ name: String, among pairs: [(name: String, value: String)], _ names: inout Set<[UInt8]>
    ) -> Bool {
        let few = 16
        guard pairs.count > few else { return !pairs.contains { $0.name.hasBytes(of: name) } }
        if names.isEmpty { names = Set(pairs.map { Array($0.name.utf8) }) }
        return names.insert(Array(name.utf8)).inserted
    }

    /// Returns the value of a name, or nil.
    package subscript(_ name: String) -> String? { pairs.first { $0.name.hasBytes(of: name) }?.value }

    /// Returns all values of a name that may be repeated.
    package func values(_ name: String) -> [String] { pairs.filter { $0.name.hasBytes(of: name) }.map(\.value) }

    /// Returns the text decoded (`+` is a space), or nil for a half escape, a control byte or invalid UTF-8.
    package static func decode(_ text: some Sequence<UInt8>) -> String? { decoded(Array(text)[...]) }

    private static func decoded(_ text: ArraySlice<UInt8>) -> String? {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.count)
        var rest = text
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "%"):
                guard let high = rest.popFirst().flatMap(nibble), let low = rest.popFirst().flatMap(nibble) else {
                    return nil
                }
                bytes.append(high << 4 | low)
            case UInt8(ascii: "+"): bytes.append(0x20)
            default: bytes.append(byte)
            }
        }
        guard bytes.allSatisfy({ $0 >= 0x20 && $0 != 0x7F || $0 == 0x0A || $0 == 0x0D || $0 == 0x09 }) else {
            return nil
        }
        return String(validating: bytes, as: UTF8.self)
    }

    private static func nibble(_ byte: UInt8) -> UInt8? {
        switch byte {
        case 0x30...0x39: byte - 0x30
        case 0x41...0x46: byte - 0x37
        case 0x61...0x66: byte - 0x57
        default: nil
        }
    }

    /// Returns the text percent-encoded for a form or query: everything but RFC 3986's unreserved bytes.
    package static func encode(_ text: String) -> String {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.utf8.count * 3)
        for byte in text.utf8 {
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F, 0x7E: bytes.append(byte)
            default:
                bytes.append(UInt8(ascii: "%"))
                bytes.append(digit(byte >> 4))
                bytes.append(digit(byte & 15))
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    private static func digit(_ nibble: UInt8) -> UInt8 { nibble < 10 ? 0x30 + nibble : 0x37 + nibble }

    /// Returns the pairs as one form text.
    package static func encode(_ pairs: [(name: String, value: String)]) -> String {
        pairs.map { encode($0.name) + "=" + encode($0.value) }.joined(separator: "&")
    }
}
