/// Begins spans that have no parent span.
package struct TraceStarter: Sendable {
    package let begin: @Sendable (_ name: String, _ kind: TraceKind, _ origin: TraceOrigin?) -> any TraceSpan

    package init(_ begin: @escaping @Sendable (String, TraceKind, TraceOrigin?) -> any TraceSpan) {
        self.begin = begin
    }
}
