/// The reason why a record is unreadable.
package enum RecordFailure: Error, Sendable, Equatable {
    /// The bytes differ from a record of this format.
    case malformed
    /// A newer version wrote the record (SEC-130). The fault is temporary, never tampering.
    case newerFormat
}
