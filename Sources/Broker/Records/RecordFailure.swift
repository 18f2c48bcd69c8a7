/// Why a record could not be read.
package enum RecordFailure: Error, Sendable, Equatable {
    /// It is not what the writer writes.
    case malformed
    /// A newer version wrote it (SEC-130): a passing fault, never tampering.
    case newerFormat
}
