/// A failure of an operation of the in-memory store.
package enum OperationFault: Sendable {
    /// The store did nothing and reports a failure.
    case refused
    /// The store did the work, and its answer is lost.
    case lost
}
