/// An SQL statement, its name on the server after preparing, and the types of its parameters.
struct Statement: Sendable {
    let name: String
    let types: [ParameterType]
    let sql: String

    /// Creates a statement.
    ///
    /// `types` has one letter for each parameter (`ParameterType`).
    init(_ name: String, _ types: String, _ sql: String) {
        self.name = name
        self.types = types.compactMap { ParameterType(rawValue: $0) }
        self.sql = sql
    }
}

/// The type of a parameter.
enum ParameterType: Character, Sendable {
    case bytes = "b"
    case integer = "i"
    case text = "t"
    case truth = "o"
    case bytesList = "B"
    case integerList = "I"
    case textList = "T"

    /// PostgreSQL's number for the type.
    var oid: UInt32 {
        switch self {
        case .bytes: 17
        case .integer: 20
        case .text: 25
        case .truth: 16
        case .bytesList: 1001
        case .integerList: 1016
        case .textList: 1009
        }
    }
}
