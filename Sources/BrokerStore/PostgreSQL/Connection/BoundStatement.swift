/// A statement with its values.
struct BoundStatement: Sendable {
    let statement: Statement
    let values: [Parameter]

    init(_ statement: Statement, _ values: [Parameter]) {
        self.statement = statement
        self.values = values
    }
}
