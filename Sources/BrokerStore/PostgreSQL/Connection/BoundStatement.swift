import Broker

/// A statement with its values.
struct BoundStatement: Sendable {
    let statement: Statement
    /// The values in the order of the statement's parameters.
    let values: Named<Parameter>

    /// Binds a value to each parameter; throws unless the names and types are exactly those of the parameters.
    init(_ statement: Statement, _ values: Named<Parameter>) throws(StoreFailure) {
        self.statement = statement
        do throws(StatementFault) {
            if let fault = statement.fault { throw fault }
            self.values = try values.ordered(by: statement.names)
            for (type, (name, value)) in zip(statement.types, self.values.pairs) where value.type != type {
                throw .wrongType(name)
            }
        } catch {
            throw .unavailable("statement \(statement.name): \(error)")
        }
    }
}
