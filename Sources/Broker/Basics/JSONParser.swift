/// Parses JSON strictly (RFC 8259): bounded size, depth and members, valid UTF-8, whole surrogate pairs, one value.
///
/// One parser reads both requests and provider answers (library note 8). A duplicate member is reported by its pointer instead
/// of being thrown, so that all faults of a request can be named together. A provider's answer with a duplicate is refused.
///
/// For provider answers, the parser can replace half a surrogate pair in a text; see `JSONObject.halvedTexts`.
package struct JSONParser {
    /// The parsed value, and the pointers of duplicate members.
    package struct Result: Sendable, Equatable {
        package let value: JSONValue
        package let duplicates: [String]
        /// The texts that contained half a surrogate pair, by pointer, with U+FFFD in its place.
        ///
        /// The dictionary is empty unless the parser replaces half pairs.
        var halvedTexts: [String: String] = [:]
    }

    /// The largest number of halved texts (with half a surrogate pair) that one parse keeps.
    private static let maximumHalvedTexts = 64

    /// The largest number of duplicates that are reported, because members are cheap to repeat.
    package static let maximumDuplicates = 32
    /// The largest number of members of one object, because they are searched one by one.
    ///
    /// No provider's answer has so many.
    package static let maximumMembers = 1024

    /// The largest number of values of a text, because even a small value costs an allocation or two.
    package static let maximumValues = 65_536

    /// A step on the path to a value; its text is made only if a pointer is reported.
    private enum Step {
        case member(String)
        case item(Int)

        var text: String {
            switch self {
            case .member(let name): name
            case .item(let index): String(index)
            }
        }
    }

    private let bytes: [UInt8]
    private var position = 0
    private let maximumDepth: Int
    private let maximumMembers: Int
    private let maximumValues: Int
    private let mendsTexts: Bool
    private var values = 0
    private var duplicates: [String] = []
    private var halvedTexts: [String: String] = [:]
    /// Whether the text that was read last contains half a surrogate pair.
    private var isHalved = false
    private var path: [Step] = []

    private init(
        _ bytes: [UInt8], maximumDepth: Int, maximumMembers: Int, maximumValues: Int, mendsTexts: Bool
    ) {
        self.mendsTexts = mendsTexts
        self.bytes = bytes
        self.maximumDepth = maximumDepth
        self.maximumMembers = maximumMembers
        self.maximumValues = maximumValues
    }

    /// Parses a whole text; throws the fault and its position in bytes.
    package static func parse(
        _ bytes: [UInt8], maximumBytes: Int, maximumDepth: Int = 8, maximumMembers: Int = maximumMembers,
        maximumValues: Int = maximumValues, mendingTexts: Bool = false
    ) throws(JSONFailure) -> Result {
        guard bytes.count <= maximumBytes else { throw JSONFailure(.tooLarge, at: maximumBytes) }
        var parser = JSONParser(
            bytes, maximumDepth: maximumDepth, maximumMembers: maximumMembers, maximumValues: maximumValues,
            mendsTexts: mendingTexts)
        parser.skipSpace()
        let value = try parser.value(depth: 0)
        parser.skipSpace()
        guard parser.position == bytes.count else { throw parser.failure(.trailingBytes) }
        return Result(value: value, duplicates: parser.duplicates, halvedTexts: parser.halvedTexts)
    }

    /// Parses an object and refuses duplicate members.
    package static func parseObject(
        _ bytes: [UInt8], maximumBytes: Int, maximumDepth: Int = 8, mendingTexts: Bool = false
    ) throws(JSONFailure) -> JSONObject {
        let result = try parse(
            bytes, maximumBytes: maximumBytes, maximumDepth: maximumDepth, mendingTexts: mendingTexts)
        if let member = result.duplicates.first { throw JSONFailure(.duplicateMember, at: 0, member: member) }
        guard var object = result.value.object else { throw JSONFailure(.notAnObject, at: 0) }
        object.halvedTexts = result.halvedTexts
        return object
    }

    private func failure(_ reason: JSONFailure.Reason) -> JSONFailure { JSONFailure(reason, at: position) }

    private var peek: UInt8? { position < bytes.count ? bytes[position] : nil }

    private mutating func skipSpace() {
        while let byte = peek, byte == 0x20 || byte == 0x09 || byte == 0x0A || byte == 0x0D { position += 1 }
    }

    private mutating func take(_ byte: UInt8) -> Bool {
        guard peek == byte else { return false }
        position += 1
        return true
    }

    private mutating func literal(_ text: StaticString, _ value: JSONValue) throws(JSONFailure) -> JSONValue {
        for index in 0..<text.utf8CodeUnitCount {
            guard take(text.utf8Start[index]) else { throw failure(.syntax) }
        }
        return value
    }

    private mutating func value(depth: Int) throws(JSONFailure) -> JSONValue {
        guard let byte = peek else { throw failure(.syntax) }
        values += 1
        guard values <= maximumValues else { throw failure(.tooManyMembers) }
        switch byte {
        case UInt8(ascii: "{"): return try object(depth: depth + 1)
        case UInt8(ascii: "["): return try array(depth: depth + 1)
        case UInt8(ascii: "\""):
            let text = try string()
            guard isHalved else { return .string(text) }
            guard halvedTexts.count < Self.maximumHalvedTexts else { throw failure(.loneSurrogate) }
            halvedTexts[JSONPointer.make(path.map(\.text))] = text
            return .null
        case UInt8(ascii: "t"): return try literal("true", .bool(true))
        case UInt8(ascii: "f"): return try literal("false", .bool(false))
        case UInt8(ascii: "n"): return try literal("null", .null)
        default: return try number()
        }
    }

    private mutating func object(depth: Int) throws(JSONFailure) -> JSONValue {
        guard depth <= maximumDepth else { throw failure(.tooDeep) }
        position += 1
        var object = JSONObject()
        // Used only if the object has too many members to compare one by one.
        var names: Set<[UInt8]> = []
        var members = 0
        skipSpace()
        if take(UInt8(ascii: "}")) { return .object(object) }
        while true {
            skipSpace()
            guard peek == UInt8(ascii: "\"") else { throw failure(.syntax) }
            members += 1
            guard members <= maximumMembers else { throw failure(.tooManyMembers) }
            let name = try string()
            // Half a surrogate pair is replaced in the name, so two different names could become equal. Do not use such a
            // name.
            let isNamed = !isHalved
            skipSpace()
            guard take(UInt8(ascii: ":")) else { throw failure(.syntax) }
            skipSpace()
            path.append(.member(name))
            let member = try value(depth: depth)
            if isNamed, Self.isNew(name, among: object, &names) {
                object.append(name, member)
            } else if isNamed, duplicates.count < Self.maximumDuplicates {
                // 128 characters of each name are enough to find the place in the text.
                duplicates.append(JSONPointer.make(path.map { $0.text.firstScalars(128) }))
            }
            path.removeLast()
            skipSpace()
            if take(UInt8(ascii: ",")) { continue }
            guard take(UInt8(ascii: "}")) else { throw failure(.syntax) }
            return .object(object)
        }
    }

    /// Returns whether an object has no member of that name yet, comparing byte by byte (RFC 8259 section 8.3).
    ///
    /// The time does not depend on the choice of names. If there are too many names to compare one by one, `names` contains
    /// them all.
    private static func isNew(_ name: String, among object: JSONObject, _ names: inout Set<[UInt8]>) -> Bool {
        let few = 16
        guard object.members.count > few else { return object[name] == nil }
        if names.isEmpty { names = Set(object.members.map { Array($0.name.utf8) }) }
        return names.insert(Array(name.utf8)).inserted
    }

    private mutating func array(depth: Int) throws(JSONFailure) -> JSONValue {
        guard depth <= maximumDepth else { throw failure(.tooDeep) }
        position += 1
        var items: [JSONValue] = []
        skipSpace()
        if take(UInt8(ascii: "]")) { return .array(items) }
        while true {
            skipSpace()
            path.append(.item(items.count))
            items.append(try value(depth: depth))
            path.removeLast()
            skipSpace()
            if take(UInt8(ascii: ",")) { continue }
            guard take(UInt8(ascii: "]")) else { throw failure(.syntax) }
            return .array(items)
        }
    }

    private mutating func number() throws(JSONFailure) -> JSONValue {
        let start = position
        _ = take(UInt8(ascii: "-"))
        if take(UInt8(ascii: "0")) {
        } else {
            guard digits() else { throw failure(.syntax) }
        }
        if take(UInt8(ascii: ".")) { guard digits() else { throw failure(.syntax) } }
        if take(UInt8(ascii: "e")) || take(UInt8(ascii: "E")) {
            if !take(UInt8(ascii: "+")) { _ = take(UInt8(ascii: "-")) }
            guard digits() else { throw failure(.syntax) }
        }
        guard position - start <= 64 else { throw failure(.syntax) }
        return .number(String(decoding: bytes[start..<position], as: UTF8.self))
    }

    private mutating func digits() -> Bool {
        let start = position
        while let byte = peek, (0x30...0x39).contains(byte) { position += 1 }
        return position > start
    }

    private mutating func string() throws(JSONFailure) -> String {
        position += 1
        isHalved = false
        var text: [UInt8] = []
        var start = position
        var seen: UInt8 = 0
        while true {
            guard let byte = peek else { throw failure(.syntax) }
            seen |= byte
            switch byte {
            case UInt8(ascii: "\""):
                let last = bytes[start..<position]
                position += 1
                // Most texts are plain ASCII without escapes, so copy them without further checks.
                if text.isEmpty, seen < 0x80 { return String(decoding: last, as: UTF8.self) }
                guard let valid = String(validating: text + last, as: UTF8.self) else { throw failure(.invalidUTF8) }
                return valid
            case UInt8(ascii: "\\"):
                text.append(contentsOf: bytes[start..<position])
                position += 1
                try escape(into: &text)
                start = position
            case 0..<0x20: throw failure(.controlCharacter)
            default: position += 1
            }
        }
    }

    private mutating func escape(into text: inout [UInt8]) throws(JSONFailure) {
        guard let byte = peek else { throw failure(.syntax) }
        position += 1
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): text.append(byte)
        case UInt8(ascii: "b"): text.append(0x08)
        case UInt8(ascii: "f"): text.append(0x0C)
        case UInt8(ascii: "n"): text.append(0x0A)
        case UInt8(ascii: "r"): text.append(0x0D)
        case UInt8(ascii: "t"): text.append(0x09)
        case UInt8(ascii: "u"):
            var code = UInt32(try hexadecimal())
            if (0xD800..<0xDC00).contains(code) {
                let behind = position
                if take(UInt8(ascii: "\\")), take(UInt8(ascii: "u")),
                    case let low = UInt32(try hexadecimal()), (0xDC00..<0xE000).contains(low)
                {
                    code = 0x10000 + (code - 0xD800) << 10 + (low - 0xDC00)
                } else if mendsTexts {
                    // The next escape is not the second half of the pair, so read it separately.
                    position = behind
                }
            }
            if mendsTexts, (0xD800..<0xE000).contains(code) {
                isHalved = true
                code = 0xFFFD
            }
            guard let scalar = Unicode.Scalar(code) else { throw failure(.loneSurrogate) }
            text.append(contentsOf: Array(String(Character(scalar)).utf8))
        default: throw failure(.syntax)
        }
    }

    private mutating func hexadecimal() throws(JSONFailure) -> UInt16 {
        var value: UInt16 = 0
        for _ in 0..<4 {
            guard let byte = peek, let digit = Character(Unicode.Scalar(byte)).hexDigitValue else {
                throw failure(.syntax)
            }
            value = value << 4 | UInt16(digit)
            position += 1
        }
        return value
    }
}
