/// A span: a piece of work in a trace, for example a request, or a call to a provider, an upstream or the store.
///
/// The executable makes the spans (decision 32). Names and attributes contain route templates, configured names, statuses and
/// the broker's own words. Queries, tokens, cookies and subjects are excluded.
package protocol TraceSpan: Sendable {
    /// The id of the trace, as 32 hexadecimal digits.
    var traceID: String { get }
    /// The W3C `traceparent` field for a call, so that the called service continues the trace.
    var traceparent: String { get }
    /// The `traceparent` field for a call to a third party, such as a provider.
    ///
    /// If the caller chose the trace's id, this field contains an id that the broker chose.
    var ownTraceparent: String { get }
    /// Whether the caller's own context is continued, so that its `tracestate` may be passed on.
    var continuesCaller: Bool { get }

    /// Begins a span within this span; `end` ends it.
    func child(_ name: String, _ kind: TraceKind) -> any TraceSpan
    func set(_ name: StaticString, _ value: String)
    func set(_ name: StaticString, _ value: Int)
    /// Gives the span another name.
    func rename(_ name: String)
    /// Adopts the caller's decision whether to record the trace, because the caller has authenticated as a backend.
    func believeCaller()
    /// Ends the span; `fault` is a word for the fault, if there was one.
    func end(_ fault: String?)
}
