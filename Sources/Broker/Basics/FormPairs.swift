/// Parses `application/x-www-form-urlencoded` text strictly (SEC-11), as a query or a body.
///
/// The text is bounded. After decoding it is valid UTF-8, and free of broken escapes and control bytes. Each name occurs once.
package struct FormPairs: Sendable, Equatable {
    /// The decoded pairs, in order; their names differ, except for the repeatable name.
    package let pairs: [(name: String, value: String)]

    package static func == (left: FormPairs, right: FormPairs) -> Bool {
        left.pairs.count == right.pairs.count
            && zip(left.pairs, right.pairs).allSatisfy { $0.name == $1.name && $0.value == $1.value }
    }

    /// The reason why a text was refused.
    package enum Failure: Error, Sendable, Equatable {
        case tooManyPairs
        case malformed(FormFault)
        /// A name that occurs twice.
        case duplicate(String)
    }

    /// Creates pairs that were parsed before.
    init(unchecked pairs: [(name: String, value: String)]) { self.pairs = pairs }

    /// Parses the text.
    ///
    /// The text may have at most `maximumPairs` pairs. A name may occur only once, except the name `repeatable`.
    package init(
        parsing text: some StringProtocol, maximumPairs: Int = 64, repeatable: String? = nil
    ) throws(Failure) {
        try self.init(parsing: Array(text.utf8), maximumPairs: maximumPairs, repeatable: repeatable)
    }

    /// Parses the bytes of a text; with `skipsEmpty`, empty parts between two `&` are skipped, but count towards the maximum.
    package init(
        parsing text: [UInt8], maximumPairs: Int = 64, repeatable: String? = nil, skipsEmpty: Bool = false
    ) throws(Failure) {
        var pairs: [(name: String, value: String)] = []
        var names: Set<[UInt8]> = []
        if !text.isEmpty {
            for (index, part) in Self.parts(of: text, maximumPairs).enumerated() {
                guard index < maximumPairs else { throw .tooManyPairs }
                if skipsEmpty, part.isEmpty { continue }
                let (rawName, rawValue) = Self.halves(of: part)
                let (name, value): (String, String)
                do throws(FormFault.Flaw) {
                    name = try Self.decoded(rawName)
                    value = try Self.decoded(rawValue)
                    guard !name.isEmpty else { throw .nameless }
                } catch { throw .malformed(FormFault(position: index + 1, flaw: error)) }
                guard repeatable?.hasBytes(of: name) == true || Self.isNew(name, among: pairs, &names) else {
                    throw .duplicate(name)
                }
                pairs.append((name, value))
            }
        }
        self.pairs = pairs
    }

    /// Returns the parts between the `&`, at most one more than the maximum number of pairs.
    ///
    /// All bytes after the last allowed pair are one part.
    static func parts(of text: [UInt8], _ maximumPairs: Int) -> [ArraySlice<UInt8>] {
        text.split(separator: UInt8(ascii: "&"), maxSplits: max(maximumPairs, 0), omittingEmptySubsequences: false)
    }

    /// Returns the name and the value of a part, which are before and after its first `=`.
    static func halves(of part: ArraySlice<UInt8>) -> (name: ArraySlice<UInt8>, value: ArraySlice<UInt8>) {
        guard let equals = part.firstIndex(of: UInt8(ascii: "=")) else { return (part, part[part.endIndex...]) }
        return (part[..<equals], part[(equals + 1)...])
    }

    /// Returns whether a name is new among the pairs; the time does not depend on the choice of names.
    ///
    /// If there are too many names to compare one by one, `names` contains them all.
    static func isNew(
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

    /// Returns the decoded text (`+` is a space), or nil for a broken escape, a control byte or invalid UTF-8.
    package static func decode(_ text: some Sequence<UInt8>) -> String? { try? decoded(Array(text)[...]) }

    /// Returns the decoded text; throws its first fault.
    static func decoded(_ text: ArraySlice<UInt8>) throws(FormFault.Flaw) -> String {
        let (bytes, isWhole) = try unescaped(text)
        guard isWhole else { throw .escape }
        guard let decoded = String(validating: bytes, as: UTF8.self) else { throw .encoding }
        return decoded
    }

    /// Returns the text's bytes with all escapes decoded, and whether all escapes were well formed.
    ///
    /// A broken escape is kept as text (WHATWG URL section 1.3). Throws `control` for control bytes other than tab, CR and LF.
    static func unescaped(_ text: ArraySlice<UInt8>) throws(FormFault.Flaw) -> (bytes: [UInt8], isWhole: Bool) {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.count)
        var isWhole = true
        var index = text.startIndex
        while index < text.endIndex {
            var byte = text[index]
            index += 1
            if byte == UInt8(ascii: "+") {
                byte = 0x20
            } else if byte == UInt8(ascii: "%") {
                if text.endIndex - index >= 2, let high = nibble(text[index]), let low = nibble(text[index + 1]) {
                    byte = high << 4 | low
                    index += 2
                } else {
                    isWhole = false
                }
            }
            guard byte >= 0x20 && byte != 0x7F || byte == 0x0A || byte == 0x0D || byte == 0x09 else { throw .control }
            bytes.append(byte)
        }
        return (bytes, isWhole)
    }

    private static func nibble(_ byte: UInt8) -> UInt8? {
        switch byte {
        case 0x30...0x39: byte - 0x30
        case 0x41...0x46: byte - 0x37
        case 0x61...0x66: byte - 0x57
        default: nil
        }
    }

    /// Returns the text percent-encoded for a form or query; only RFC 3986's unreserved bytes stay as they are.
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
