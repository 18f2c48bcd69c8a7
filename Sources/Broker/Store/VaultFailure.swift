/// The reason why a vault operation failed.
///
/// The failure never contains key material or plaintext.
package enum VaultFailure: Error, Sendable, Equatable {
    /// The row was sealed under a key that this process lacks. The fault is temporary, so the answer is 503 (guarantee 3).
    case unknownKey(String)
    /// Length, version or tag is wrong, because the row was changed. The session ends with `integrity`.
    case doesNotOpen
    /// The random generator or a cryptographic operation failed.
    case unavailable
}
