/// An SQL statement, its name on the server after preparing, and its parameters.
final class Statement: Sendable {
    let name: String
    /// The names and types of the parameters, in the order of their numbers in `sql`.
    let names: [String]
    let types: [ParameterType]
    /// The text with PostgreSQL's numbers (`$1`) instead of names.
    let sql: String
    /// The first difference between the parameters of the text and the declared ones; nil if they are equal.
    ///
    /// The store refuses to run a statement with a fault.
    let fault: StatementFault?

    /// Creates a statement from a text with named parameters, such as `:token`.
    init(_ name: String, _ parameters: Named<ParameterType>, _ text: String) {
        self.name = name
        let names = parameters.names
        self.names = names
        types = parameters.elements
        let text = StatementText(text)
        sql = text.pieces.map { piece in
            switch piece {
            case .sql(let text): text
            case .parameter(let name): names.firstIndex(of: name).map { "$\($0 + 1)" } ?? ":\(name)"
            }
        }.joined()
        let used = text.names
        fault =
            used.first { !names.contains($0) }.map { .undeclared($0) }
            ?? names.first { !used.contains($0) }.map { .unused($0) }
            ?? parameters.repeatedName.map { .repeated($0) }
    }
}
