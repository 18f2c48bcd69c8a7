/// One attribute that a partial registration needs.
package struct RegistrationField: Sendable, Equatable {
    package enum Kind: String, Sendable { case string, number, boolean }

    /// The schema slug (`first-name`).
    package let name: String
    package let type: Kind
    package let required: Bool

    /// Returns whether a value is of the field's type.
    package func accepts(_ value: JSONValue) -> Bool {
        switch (type, value) {
        case (.string, .string), (.number, .number), (.boolean, .bool): true
        default: false
        }
    }

    package init(name: String, type: Kind, required: Bool) {
        self.name = name
        self.type = type
        self.required = required
    }
}
