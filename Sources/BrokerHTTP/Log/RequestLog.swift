/// Receives one record for each request, from the task that served it.
package struct RequestLog: Sendable {
    /// Receives a record; the closure must not block.
    package let record: @Sendable (RequestRecord) -> Void

    /// Creates a log from its closure.
    package init(record: @escaping @Sendable (RequestRecord) -> Void) { self.record = record }
}
