import Tracing

/// A span that has ended, as it waits to be sent.
struct FinishedSpan: Sendable {
    let traceID: String
    let spanID: String
    let parentID: String?
    let name: String
    let kind: SpanKind
    /// Nanoseconds since 1970.
    let start: UInt64
    let end: UInt64
    let attributes: SpanAttributes
    let hasFailed: Bool
}
