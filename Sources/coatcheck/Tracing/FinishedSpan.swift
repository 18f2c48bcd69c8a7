import Broker

/// A span that has ended, as it waits to be sent.
struct FinishedSpan: Sendable {
    /// The value of an attribute.
    enum Value: Sendable, Equatable {
        case text(String)
        case integer(Int)
    }

    let traceID: String
    let spanID: String
    let parentID: String?
    let name: String
    let kind: TraceKind
    /// Nanoseconds since 1970.
    let start: UInt64
    let end: UInt64
    let attributes: [String: Value]
    let hasFailed: Bool
}
