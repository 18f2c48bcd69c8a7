/// Seals, opens, computes digests and makes random bytes.
///
/// The only implementation uses the system's OpenSSL library (decision 3).
package protocol Vault: ProofSigner {
    /// Seals `plaintext` for the row whose key is `row` under the ring's first key, with a fresh nonce.
    func seal(_ plaintext: [UInt8], as kind: SealedKind, row: Digest) throws(VaultFailure) -> Sealed

    /// Opens a sealed value.
    ///
    /// Throws `unknownKey` if this process does not have the key (yet), and `doesNotOpen` for any other fault.
    func open(_ sealed: Sealed, as kind: SealedKind, row: Digest) throws(VaultFailure) -> [UInt8]

    /// Returns the HMAC-SHA-256 of the parts (each length-prefixed) under the index key, which does not rotate.
    func index(_ kind: IndexKind, _ parts: [String]) -> Digest

    /// Returns the session token `base64url(HMAC-SHA256(K, salt ‖ proof))`, 43 characters (decision 4).
    ///
    /// `K` is derived from the ring's key `keyID` for this purpose only.
    func sessionToken(keyID: String, salt: [UInt8], proof: Secret) throws(VaultFailure) -> Secret

    /// Returns whether a signature (`r` and `s`, 32 bytes each) over the message was made by the key (RFC 7518 section 3.4).
    ///
    /// The check takes some tens of microseconds. The result is false for a point outside the curve.
    func isES256Signature(_ signature: [UInt8], over message: [UInt8], by key: ProofKey) -> Bool

    /// The id of the key that seals new values.
    var currentKeyID: String { get }

    /// Whether the key ring is the right one for the store, as far as the broker knows.
    ///
    /// A ring that cannot open the stored values must not seal new ones.
    var isTheStores: Bool { get }
}

extension Vault {
    package var isTheStores: Bool { true }
}

extension Vault {
    /// Returns the SHA-256 of a secret's text; the store finds login and session tokens by it.
    package func digest(_ secret: Secret) -> Digest { digest(secret.bytes()) }

    /// Returns a fresh secret of `count` random bytes as base64url (32 bytes make 43 characters).
    package func randomToken(bytes count: Int = 32) throws(VaultFailure) -> Secret {
        Secret(Base64URL.encode(try random(count)))
    }

    /// Returns the PKCE S256 challenge of a verifier (RFC 7636 section 4.2).
    package func codeChallenge(of verifier: Secret) -> String { Base64URL.encode(digest(verifier).bytes) }
}
