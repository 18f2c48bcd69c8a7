/// Seals the lines of an export for the key of another system's operator.
package protocol ExportSealing: Sendable {
    /// The key's name in audit records: the base64url SHA-256 of its DER form.
    var name: String { get }

    /// Returns the plaintext as a compact JWE (RFC 7516).
    func seal(_ plaintext: [UInt8]) throws(ExportKeyFailure) -> String
}
