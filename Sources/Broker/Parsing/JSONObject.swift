/// A JSON object: members in their order.
///
/// Of two equal names the first is kept; the parser reports the second.
package struct JSONObject: Sendable, Equatable {
    /// The members, in order.
    package private(set) var members: [(name: String, value: JSONValue)]

    /// Creates an object from members whose names differ.
    package init(_ members: [(name: String, value: JSONValue)] = []) { self.members = members }

    /// Returns the member's value, or nil when there is none of that name.
    package subscript(_ name: String) -> JSONValue? { members.first { $0.name.hasBytes(of: name) }?.value }

    /// The member names, in order.
    package var names: [String] { members.map(\.name) }

    mutating func append(_ name: String, _ value: JSONValue) { members.append((name, value)) }

    package static func == (left: JSONObject, right: JSONObject) -> Bool {
        left.members.count == right.members.count
            && zip(left.members, right.members).allSatisfy { $0.name == $1.name && $0.value == $1.value }
    }

    /// Returns what an RFC 6901 JSON pointer names (`/data/id`, `/items/0`), or nil.
    package func value(at pointer: String) -> JSONValue? {
        guard !pointer.isEmpty else { return .object(self) }
        guard pointer.hasPrefix("/") else { return nil }
        var current = JSONValue.object(self)
        for raw in pointer.dropFirst().split(separator: "/", omittingEmptySubsequences: false) {
            let token = Self.unescape(raw)
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
        guard token.contains("~") else { return String(token) }
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
