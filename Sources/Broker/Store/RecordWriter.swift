/// Writes the plaintext of a sealed value: its fields in order, each text with its length.
///
/// The format is compact and fast, because a session's facts are opened on every request. The first byte is the format number
/// (SEC-130).
package struct RecordWriter {
    /// The bytes written so far.
    package private(set) var bytes: [UInt8]

    /// Creates a record of a format.
    package init(format: UInt8) { bytes = [format] }

    package mutating func integer(_ value: Int64) {
        withUnsafeBytes(of: value.littleEndian) { bytes.append(contentsOf: $0) }
    }

    package mutating func string(_ value: String) {
        var value = value
        value.withUTF8 { text in
            integer(Int64(text.count))
            bytes.append(contentsOf: text)
        }
    }

    package mutating func flag(_ value: Bool) { bytes.append(value ? 1 : 0) }

    /// Writes a field whose value may be missing.
    package mutating func optional<Value>(_ value: Value?, _ write: (inout RecordWriter, Value) -> Void) {
        flag(value != nil)
        if let value { write(&self, value) }
    }

    package mutating func optional(_ value: String?) { optional(value) { $0.string($1) } }
    package mutating func optional(_ value: Int64?) { optional(value) { $0.integer($1) } }
    package mutating func optional(_ value: Secret?) { optional(value?.reveal()) }
    package mutating func optional(_ value: WallTime?) { optional(value?.milliseconds) }

    package mutating func list<Value>(_ values: [Value], _ write: (inout RecordWriter, Value) -> Void) {
        integer(Int64(values.count))
        for value in values { write(&self, value) }
    }

    package mutating func strings(_ values: [String]) { list(values) { $0.string($1) } }

    package mutating func pairs(_ values: [(name: String, value: String)]) {
        list(values) { writer, pair in
            writer.string(pair.name)
            writer.string(pair.value)
        }
    }

    package mutating func claims(_ values: [(name: String, value: JSONValue)]) {
        list(values) { writer, claim in
            writer.string(claim.name)
            writer.value(claim.value)
        }
    }

    /// Writes a JSON value; objects are written as null, because claims never contain them.
    package mutating func value(_ value: JSONValue) {
        switch value {
        case .null, .object: bytes.append(0)
        case .bool(let flag): bytes.append(flag ? 2 : 1)
        case .number(let text):
            bytes.append(3)
            string(text)
        case .string(let text):
            bytes.append(4)
            string(text)
        case .array(let items):
            bytes.append(5)
            list(items) { $0.value($1) }
        }
    }
}

extension RecordWriter {

    /// Creates a record that begins with the thumbprint of the device key that it is bound to.
    ///
    /// Pass nil for an unbound record.
    init(boundTo thumbprint: Digest?) {
        self.init(format: thumbprint == nil ? BindableFormat.unbound : BindableFormat.bound)
        if let thumbprint { string(Base64URL.encode(thumbprint.bytes)) }
    }

    /// Creates a record that may be bound to a device key, and may contain a key of the broker.
    init(boundTo thumbprint: Digest?, holding key: ProofKeyPair?) {
        guard let key else {
            self.init(boundTo: thumbprint)
            return
        }
        self.init(format: BindableFormat.keyed)
        self.key(key)
        optional(thumbprint.map { Base64URL.encode($0.bytes) })
    }
}
