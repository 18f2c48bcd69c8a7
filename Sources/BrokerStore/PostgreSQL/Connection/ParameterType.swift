/// The type of a parameter.
enum ParameterType: Sendable {
    /// A digest is bytes, too.
    case bytes
    /// A time or a duration is an integer: its milliseconds.
    case integer
    case text
    case truth
    case bytesList
    case integerList
    case textList

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

    /// The type of a list's elements.
    var element: ParameterType {
        switch self {
        case .bytes, .bytesList: .bytes
        case .integer, .integerList: .integer
        case .text, .textList: .text
        case .truth: .truth
        }
    }
}
