/// A JSON value that keeps the order of members and the notation of numbers, so that strange answers are possible.
package indirect enum JSON: Sendable, Equatable {
    /// One member of an object.
    package struct Member: Sendable, Equatable {
        /// The member's name.
        package var name: String
        /// The member's value.
        package var value: JSON
    }

    /// An object, in order.
    case object([Member])
    /// An array.
    case array([JSON])
    /// A string.
    case string(String)
    /// An integer in the range of `Int`.
    case int(Int)
    /// A number with exactly this notation (`1e300`, `1.5`).
    case raw(String)
    /// A boolean.
    case bool(Bool)
    /// The null.
    case null

    /// The member with this name; setting nil removes it.
    package subscript(name: String) -> JSON? {
        get {
            guard case .object(let members) = self else { return nil }
            return members.first { $0.name == name }?.value
        }
        set {
            guard case .object(var members) = self else { return }
            let at = members.firstIndex { $0.name == name }
            switch (at, newValue) {
            case (.some(let index), .some(let value)): members[index].value = value
            case (.some(let index), .none): members.remove(at: index)
            case (.none, .some(let value)): members.append(Member(name: name, value: value))
            case (.none, .none): break
            }
            self = .object(members)
        }
    }

    /// The text, if this is a string.
    package var text: String? {
        if case .string(let value) = self { value } else { nil }
    }

    /// The whole number, if this is a whole number.
    package var number: Int? {
        if case .int(let value) = self { value } else { nil }
    }

    /// The boolean, if this is a boolean.
    package var flag: Bool? {
        if case .bool(let value) = self { value } else { nil }
    }

    /// The elements, if this is an array.
    package var elements: [JSON]? {
        if case .array(let value) = self { value } else { nil }
    }

    /// The members, if this is an object.
    package var members: [Member]? {
        if case .object(let value) = self { value } else { nil }
    }

    /// Returns this object with the members of `other` added or replaced.
    ///
    /// A null in `other` removes the member.
    package func merging(_ other: JSON) -> JSON {
        guard case .object(let additions) = other else { return self }
        var result = self
        for member in additions {
            result[member.name] = member.value == .null ? nil : member.value
        }
        return result
    }
}

extension JSON: ExpressibleByDictionaryLiteral, ExpressibleByArrayLiteral, ExpressibleByStringLiteral,
    ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral
{
    /// An object.
    package init(dictionaryLiteral elements: (String, JSON)...) {
        self = .object(elements.map { Member(name: $0.0, value: $0.1) })
    }
    /// An array.
    package init(arrayLiteral elements: JSON...) { self = .array(elements) }
    /// A string.
    package init(stringLiteral value: String) { self = .string(value) }
    /// An integer.
    package init(integerLiteral value: Int) { self = .int(value) }
    /// A boolean.
    package init(booleanLiteral value: Bool) { self = .bool(value) }
}

extension JSON {
    /// The compact text of this value.
    package var serialized: String {
        var out = ""
        write(to: &out)
        return out
    }

    private func write(to out: inout String) {
        switch self {
        case .object(let members):
            out += "{"
            for (index, member) in members.enumerated() {
                if index > 0 { out += "," }
                Self.write(member.name, to: &out)
                out += ":"
                member.value.write(to: &out)
            }
            out += "}"
        case .array(let values):
            out += "["
            for (index, value) in values.enumerated() {
                if index > 0 { out += "," }
                value.write(to: &out)
            }
            out += "]"
        case .string(let value): Self.write(value, to: &out)
        case .int(let value): out += String(value)
        case .raw(let value): out += value
        case .bool(let value): out += value ? "true" : "false"
        case .null: out += "null"
        }
    }

    private static func write(_ text: String, to out: inout String) {
        out += "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": out += "\\\""
            case "\\": out += "\\\\"
            case "\n": out += "\\n"
            case "\r": out += "\\r"
            case "\t": out += "\\t"
            default:
                if scalar.value < 0x20 {
                    let hex = String(scalar.value, radix: 16)
                    out += "\\u" + String(repeating: "0", count: 4 - hex.count) + hex
                } else {
                    out.unicodeScalars.append(scalar)
                }
            }
        }
        out += "\""
    }
}
