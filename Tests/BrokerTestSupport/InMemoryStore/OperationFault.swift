/// A failure of an operation of the in-memory store.
package enum OperationFault: Sendable {
    /// Nothing was done.
    case refused
    /// It was done, and nobody hears of it.
    case lost
}
