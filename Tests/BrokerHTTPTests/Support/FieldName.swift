import HTTPTypes

/// Makes field names of literals.
enum FieldName {
    /// Returns the name; a literal that is none gives `Server`, which no test sends.
    static func named(_ text: String) -> HTTPField.Name { HTTPField.Name(text) ?? .server }
}
