import Broker
import BrokerHTTP

/// A status as a metric's label: the exact number if the broker itself may answer with it, and the class otherwise.
///
/// An upstream may answer with any number, and each number would become a series (SEC-118).
enum StatusLabel: Hashable {
    case exact(Int)
    /// The first digit of the status; 0 for a status outside HTTP's classes.
    case group(Int)

    /// The statuses of the broker's own answers.
    ///
    /// In the log, 499 means that the client hung up.
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
