/// A statement of SQLite with named parameters, such as `:token`.
struct NamedSQL: Sendable {
    let text: String
    /// The names of the parameters, in the order in which SQLite numbers them.
    let names: [String]

    init(_ text: String) {
        self.text = text
        names = StatementText(text).names
    }
}
