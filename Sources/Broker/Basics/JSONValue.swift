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

/// A JSON object with its members in order.
///
/// Of two equal names the first is kept; the parser reports the second.
package struct JSONObject: Sendable, Equatable {
    /// The members, in order.
    package private(set) var members: [(name: String, value: JSONValue)]
    /// The texts below this object that contained half a surrogate pair, by pointer, with U+FFFD in its place.
    ///
    /// The values at these pointers are null. Only a parser that replaces half pairs fills this member, and only in the
    /// outermost object.
    ///
    /// A reader that shows a text to people may use these texts. Other readers treat the text as absent, because two different
    /// texts must not become equal (decision 80).
    package internal(set) var halvedTexts: [String: String] = [:]

    /// Creates an object from members whose names differ.
    package init(_ members: [(name: String, value: JSONValue)] = []) { self.members = members }

    /// Returns the member's value, or nil if the member is missing.
    package subscript(_ name: String) -> JSONValue? { members.first { $0.name.hasBytes(of: name) }?.value }

    /// Returns the member's value, or nil if the member is missing or null.
    package func present(_ name: String) -> JSONValue? {
        guard let value = self[name], !value.isNull else { return nil }
        return value
    }

    /// The member names, in order.
    package var names: [String] { members.map(\.name) }

    mutating func append(_ name: String, _ value: JSONValue) { members.append((name, value)) }

    package static func == (left: JSONObject, right: JSONObject) -> Bool {
        left.members.count == right.members.count
            && zip(left.members, right.members).allSatisfy { $0.name == $1.name && $0.value == $1.value }
    }

    /// Returns the value at an RFC 6901 JSON pointer (`/data/id`, `/items/0`), or nil.
    package func value(at pointer: String) -> JSONValue? {
        guard let first = pointer.utf8.first else { return .object(self) }
        guard first == UInt8(ascii: "/") else { return nil }
        var current = JSONValue.object(self)
        for raw in pointer.utf8.dropFirst().split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false) {
            let token = Self.unescape(Substring(raw))
            switch current {
            case .object(let object):
                guard let next = object[token] else { return nil }
                current = next
            case .array(let items):
                guard let index = Int(token), items.indices.contains(index) else { return nil }
                current = items[index]
            default: return nil
            }
        }
        return current
    }

    private static func unescape(_ token: Substring) -> String {
        guard token.utf8.contains(UInt8(ascii: "~")) else { return String(token) }
        var text = ""
        var escaped = false
        for character in token {
            if escaped {
                text.append(character == "1" ? "/" : character == "0" ? "~" : character)
                escaped = false
            } else if character == "~" {
                escaped = true
            } else {
                text.append(character)
            }
        }
        return text
    }
}

/// Makes RFC 6901 JSON pointers.
package enum JSONPointer {
    /// Returns the pointer of a path of member names (`["a/b"]` → `/a~1b`).
    package static func make(_ path: [String]) -> String {
        path.map { name in
            var escaped = "/"
            for scalar in name.unicodeScalars {
                switch scalar {
                case "~": escaped += "~0"
                case "/": escaped += "~1"
                default: escaped.unicodeScalars.append(scalar)
                }
            }
            return escaped
        }.joined()
    }
}
