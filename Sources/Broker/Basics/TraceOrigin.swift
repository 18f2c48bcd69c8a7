/// The trace context that came with a request.
package struct TraceOrigin: Sendable {
    package let traceparent: String
    /// Whether the broker follows the context's decision to record.
    package let isTrusted: Bool

    package init(traceparent: String, isTrusted: Bool) {
        self.traceparent = traceparent
        self.isTrusted = isTrusted
    }
}
