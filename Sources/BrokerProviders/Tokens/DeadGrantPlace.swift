import Broker

/// One entry of `token_response: {dead_grants}`: a sign of a dead grant in the answer to a refresh (guarantee 2).
///
/// The entry has a pointer to a place in the answer, and the values at this place that mean a dead grant. A value must be
/// equal to the whole text or number in the answer. Only entries in the configuration or a preset are used.
package struct DeadGrantPlace: Sendable, Equatable {
    /// `at`: an RFC 6901 JSON pointer, extended so that `*` matches every entry of a list.
    package var pointer: String
    /// `values`: the texts or numbers that mean a dead grant.
    package var values: [String]
    /// `statuses`: the answers' statuses that the entry applies to.
    package var statuses: Set<Int>

    package init(pointer: String, values: [String], statuses: Set<Int> = [400, 401]) {
        self.pointer = pointer
        self.values = values
        self.statuses = statuses
    }

    /// Returns whether an answer has one of the values at the place.
    ///
    /// If the pointer matches the entries of a list, every entry must have one of the values.
    func isFound(in answer: JSONObject, _ status: Int) -> Bool {
        guard statuses.contains(status) else { return false }
        let path = pointer.split(separator: "/", omittingEmptySubsequences: false).dropFirst()
        return isFound(in: .object(answer), path)
    }

    private func isFound(in value: JSONValue, _ path: ArraySlice<Substring>) -> Bool {
        guard let step = path.first else {
            switch value {
            case .string(let text), .number(let text): return values.contains { $0.hasBytes(of: text) }
            case .bool, .array, .object, .null: return false
            }
        }
        let rest = path.dropFirst()
        switch value {
        case .array(let items):
            return step == "*" && !items.isEmpty && items.allSatisfy { isFound(in: $0, rest) }
        case .object(let object):
            guard step != "*", let member = object.value(at: "/" + step) else { return false }
            return isFound(in: member, rest)
        case .string, .number, .bool, .null: return false
        }
    }
}
