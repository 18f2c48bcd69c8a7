import Broker
import BrokerHTTP

/// A status as a metric's label: its own number where the broker itself may answer with it, else its class.
///
/// An upstream answers with any it likes, and each would be a series (SEC-118).
enum StatusLabel: Hashable {
    case exact(Int)
    /// The hundreds of it; 0 is none that HTTP knows.
    case group(Int)

    /// What the broker answers with; 499 is the log's word for a client that hung up.
    private static let own = Set(ProblemCode.allCases.map(\.status)).union([200, 201, 202, 204, 303, 499])

    init(_ status: Int) {
        self = Self.own.contains(status) ? .exact(status) : .group((1...5).contains(status / 100) ? status / 100 : 0)
    }

    /// The label's value.
    var text: String {
        switch self {
        case .exact(let status): String(status)
        case .group(0): "other"
        case .group(let hundreds): "\(hundreds)xx"
        }
    }
}
