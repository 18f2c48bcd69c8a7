import Broker

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

/// A statement with its values.
struct BoundStatement: Sendable {
    let statement: Statement
    let values: [Parameter]

    init(_ statement: Statement, _ values: [Parameter]) {
        self.statement = statement
        self.values = values
    }
}

/// A value of a statement, in PostgreSQL's binary form; nil bytes are NULL.
struct Parameter: Sendable, Equatable {
    let bytes: [UInt8]?

    static let null = Parameter(bytes: nil)

    static func bytes(_ bytes: [UInt8]?) -> Parameter { Parameter(bytes: bytes) }
    static func digest(_ digest: Digest?) -> Parameter { Parameter(bytes: digest?.bytes) }
    static func text(_ text: String?) -> Parameter { Parameter(bytes: text.map { Array($0.utf8) }) }
    static func truth(_ truth: Bool) -> Parameter { Parameter(bytes: [truth ? 1 : 0]) }
    static func integer(_ value: Int64?) -> Parameter {
        Parameter(bytes: value.map { bigEndian(UInt64(bitPattern: $0), 8) })
    }
    static func integer(_ value: Int) -> Parameter { integer(Int64(value)) }
    static func time(_ time: WallTime?) -> Parameter { integer(time?.milliseconds) }
    static func duration(_ duration: Duration?) -> Parameter { integer(duration?.wholeMilliseconds) }

    static func list(of type: ParameterType, _ elements: [Parameter]) -> Parameter {
        var bytes: [UInt8] = []
        bytes += bigEndian(elements.isEmpty ? 0 : 1, 4)
        bytes += bigEndian(elements.contains { $0.bytes == nil } ? 1 : 0, 4)
        bytes += bigEndian(UInt64(type.oid), 4)
        guard !elements.isEmpty else { return Parameter(bytes: bytes) }
        bytes += bigEndian(UInt64(elements.count), 4)
        bytes += bigEndian(1, 4)
        for element in elements {
            if let value = element.bytes {
                bytes += bigEndian(UInt64(value.count), 4)
                bytes += value
            } else {
                bytes += [0xFF, 0xFF, 0xFF, 0xFF]
            }
        }
        return Parameter(bytes: bytes)
    }

    private static func bigEndian(_ value: UInt64, _ count: Int) -> [UInt8] {
        (0..<count).map { UInt8(truncatingIfNeeded: value >> UInt64((count - 1 - $0) * 8)) }
    }
}
