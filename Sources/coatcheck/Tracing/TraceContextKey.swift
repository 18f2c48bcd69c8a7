import Tracing

/// Where a `ServiceContext` carries the span that the next one is within.
enum TraceContextKey: ServiceContextKey {
    /// A span and its trace.
    struct Value: Sendable {
        let trace: LocalTrace
        /// Nil before the trace's first span.
        let spanID: String?
    }

    static var nameOverride: String? { "coatcheck-trace" }
}
