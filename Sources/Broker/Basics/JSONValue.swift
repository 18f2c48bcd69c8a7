/// A parsed JSON value (RFC 8259).
package enum JSONValue: Sendable, Equatable {
    case object(JSONObject)
    case array([JSONValue])
    case string(String)
    /// The number's original text, so that its value stays exact and parsing cannot trap; see `integer` and `double`.
    case number(String)
    case bool(Bool)
    case null

    /// The string, if the value is a string.
    package var string: String? { if case .string(let text) = self { text } else { nil } }
    /// The object, if the value is an object.
    package var object: JSONObject? { if case .object(let object) = self { object } else { nil } }
    /// The array, if the value is an array.
    package var array: [JSONValue]? { if case .array(let items) = self { items } else { nil } }
    /// The boolean, if the value is a boolean.
    package var bool: Bool? { if case .bool(let value) = self { value } else { nil } }
    /// The number as a finite double, if the value is such a number.
    package var double: Double? {
        guard case .number(let text) = self, let value = Double(text), value.isFinite else { return nil }
        return value
    }
    /// The number as a 64-bit integer, if it is whole and in range (`1.0` and `1e3` are whole).
    package var integer: Int64? {
        guard case .number(let text) = self else { return nil }
        if let exact = Int64(text) { return exact }
        guard let value = Double(text) else { return nil }
        return Int64(exactly: value)
    }
    /// Whether the value is null.
    package var isNull: Bool { self == .null }
}
