/// A parsed JSON value (RFC 8259).
package enum JSONValue: Sendable, Equatable {
    case object(JSONObject)
    case array([JSONValue])
    case string(String)
    /// The number's text as it stood, so that nothing is lost and nothing can trap; see `integer` and `double`.
    case number(String)
    case bool(Bool)
    case null

    /// The string, when it is one.
    package var string: String? { if case .string(let text) = self { text } else { nil } }
    /// The object, when it is one.
    package var object: JSONObject? { if case .object(let object) = self { object } else { nil } }
    /// The array, when it is one.
    package var array: [JSONValue]? { if case .array(let items) = self { items } else { nil } }
    /// The boolean, when it is one.
    package var bool: Bool? { if case .bool(let value) = self { value } else { nil } }
    /// The number as a finite double, when it is one.
    package var double: Double? {
        guard case .number(let text) = self, let value = Double(text), value.isFinite else { return nil }
        return value
    }
    /// The number as a 64-bit integer, when it is a whole one in range (`1.0` and `1e3` are whole).
    package var integer: Int64? {
        guard case .number(let text) = self else { return nil }
        if let exact = Int64(text) { return exact }
        guard let value = Double(text) else { return nil }
        return Int64(exactly: value)
    }
    /// Whether it is null.
    package var isNull: Bool { self == .null }
}
