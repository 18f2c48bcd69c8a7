/// Why the vault could not do it.
///
/// Never carries key material or plaintext.
package enum VaultFailure: Error, Sendable, Equatable {
    /// The row was sealed under a key that this process does not hold: a passing fault, 503 (guarantee 3).
    case unknownKey(String)
    /// Length, version or tag is wrong: somebody changed the row. The session ends with `integrity`.
    case doesNotOpen
    /// The random generator or a cryptographic operation failed.
    case unavailable
}
