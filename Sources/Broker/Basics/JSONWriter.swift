/// Writes the JSON of answers directly, without building a tree first.
package struct JSONWriter {
    /// The bytes written so far.
    package private(set) var bytes: [UInt8] = []
    private var needsComma = false

    /// Creates a writer; `capacity` is the expected size in bytes.
    package init(capacity: Int = 512) { bytes.reserveCapacity(capacity) }

    /// Writes an object whose members `body` writes.
    package mutating func object(_ body: (inout JSONWriter) -> Void) {
        open(UInt8(ascii: "{"))
        body(&self)
        close(UInt8(ascii: "}"))
    }

    /// Writes an array whose items `body` writes.
    package mutating func array(_ body: (inout JSONWriter) -> Void) {
        open(UInt8(ascii: "["))
        body(&self)
        close(UInt8(ascii: "]"))
    }

    /// Writes a member's name; a value must follow.
    package mutating func name(_ name: String) {
        separate()
        quoted(name)
        bytes.append(UInt8(ascii: ":"))
        needsComma = false
    }

    package mutating func member(_ name: String, _ value: String) {
        self.name(name)
        string(value)
    }

    package mutating func member(_ name: String, _ value: String?) {
        self.name(name)
        if let value { string(value) } else { null() }
    }

    package mutating func member(_ name: String, _ value: Bool) {
        self.name(name)
        bool(value)
    }

    package mutating func member(_ name: String, _ value: Int64) {
        self.name(name)
        integer(value)
    }

    package mutating func member(_ name: String, _ value: JSONValue) {
        self.name(name)
        self.value(value)
    }

    /// Writes a member whose value is a time in RFC 3339 form.
    package mutating func member(_ name: String, _ value: WallTime) {
        self.name(name)
        bytes.append(UInt8(ascii: "\""))
        value.appendRFC3339(to: &bytes)
        bytes.append(UInt8(ascii: "\""))
        needsComma = true
    }

    package mutating func member(_ name: String, _ value: WallTime?) {
        if let value { member(name, value) } else { member(name, String?.none) }
    }

    package mutating func string(_ value: String) {
        separate()
        quoted(value)
        needsComma = true
    }

    package mutating func bool(_ value: Bool) { raw(value ? "true" : "false") }
    package mutating func integer(_ value: Int64) { raw(String(value)) }
    package mutating func null() { raw("null") }

    /// Writes a parsed value.
    package mutating func value(_ value: JSONValue) {
        switch value {
        case .object(let object):
            self.object { writer in
                for member in object.members { writer.member(member.name, member.value) }
            }
        case .array(let items): array { writer in for item in items { writer.value(item) } }
        case .string(let text): string(text)
        case .number(let text): raw(text)
        case .bool(let flag): bool(flag)
        case .null: null()
        }
    }

    private mutating func raw(_ text: String) {
        separate()
        bytes.append(contentsOf: text.utf8)
        needsComma = true
    }

    private mutating func separate() { if needsComma { bytes.append(UInt8(ascii: ",")) } }

    private mutating func open(_ byte: UInt8) {
        separate()
        bytes.append(byte)
        needsComma = false
    }

    private mutating func close(_ byte: UInt8) {
        bytes.append(byte)
        needsComma = true
    }

    private static let hexadecimal = Array("0123456789abcdef".utf8)

    private mutating func quoted(_ text: String) {
        bytes.append(UInt8(ascii: "\""))
        var text = text
        text.withUTF8 { utf8 in
            // Nearly all texts can be copied unescaped.
            if PlainText.isJSON(utf8) {
                bytes.append(contentsOf: utf8)
            } else {
                escaped(utf8)
            }
        }
        bytes.append(UInt8(ascii: "\""))
    }

    private mutating func escaped(_ text: UnsafeBufferPointer<UInt8>) {
        for byte in text {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"):
                bytes.append(UInt8(ascii: "\\"))
                bytes.append(byte)
            case 0x0A: bytes.append(contentsOf: [UInt8(ascii: "\\"), UInt8(ascii: "n")])
            case 0x0D: bytes.append(contentsOf: [UInt8(ascii: "\\"), UInt8(ascii: "r")])
            case 0x09: bytes.append(contentsOf: [UInt8(ascii: "\\"), UInt8(ascii: "t")])
            case 0..<0x20, 0x7F:
                bytes.append(contentsOf: Array("\\u00".utf8))
                bytes.append(Self.hexadecimal[Int(byte >> 4)])
                bytes.append(Self.hexadecimal[Int(byte & 15)])
            default: bytes.append(byte)
            }
        }
    }
}
