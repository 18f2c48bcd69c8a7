/// Seals, opens, digests and makes randomness.
///
/// The one implementation stands on the system's OpenSSL (decision 3).
package protocol Vault: Sendable {
    /// Seals `plaintext` for the row whose key is `row` under the ring's first key, with a fresh nonce.
    func seal(_ plaintext: [UInt8], as kind: SealedKind, row: Digest) throws(VaultFailure) -> Sealed

    /// Opens a sealed value; `unknownKey` when this process does not have the key (yet), `doesNotOpen` for anything else.
    func open(_ sealed: Sealed, as kind: SealedKind, row: Digest) throws(VaultFailure) -> [UInt8]

    /// Returns the SHA-256 of the bytes.
    func digest(_ bytes: [UInt8]) -> Digest

    /// Returns the HMAC-SHA-256 of the parts (each length-prefixed) under the index key, which does not rotate.
    func index(_ kind: IndexKind, _ parts: [String]) -> Digest

    /// Returns the session token `base64url(HMAC-SHA256(K, salt ‖ proof))` with the purpose key of ring key `keyID`
    /// (decision 4), 43 characters.
    func sessionToken(keyID: String, salt: [UInt8], proof: Secret) throws(VaultFailure) -> Secret

    /// Returns whether a signature of `r` and `s`, 32 bytes each, is the key's over the message (RFC 7518 section 3.4).
    ///
    /// It takes some tens of microseconds, and is false for a point that is not on the curve.
    func isES256Signature(_ signature: [UInt8], over message: [UInt8], by key: ProofKey) -> Bool

    /// The id of the key that seals now.
    var currentKeyID: String { get }

    /// Whether the ring is the store's, as far as anybody has found out: one that opens nothing of what is stored must not
    /// seal what comes.
    var isTheStores: Bool { get }

    /// Returns `count` random bytes; throws when the generator fails.
    func random(_ count: Int) throws(VaultFailure) -> [UInt8]
}

extension Vault {
    package var isTheStores: Bool { true }
}
