/// The receiver of events.
package struct EventSink: Sendable {
    /// Receives one event; the closure must not block.
    package let emit: @Sendable (BrokerEvent) -> Void

    /// Creates a sink from its closure.
    package init(emit: @escaping @Sendable (BrokerEvent) -> Void) { self.emit = emit }
}
