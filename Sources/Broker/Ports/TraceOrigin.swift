/// The context that came with a request.
package struct TraceOrigin: Sendable {
    package let traceparent: String
    /// Whether its decision what is recorded is believed.
    package let isTrusted: Bool

    package init(traceparent: String, isTrusted: Bool) {
        self.traceparent = traceparent
        self.isTrusted = isTrusted
    }
}
