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
