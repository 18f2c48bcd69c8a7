/// Makes P-256 keys and signs with them.
///
/// Every use of the keys that providers' tokens are bound to goes through this type (RFC 9449).
package protocol ProofSigner: Sendable {
    /// Returns the key pair that is derived from a seed of at least 32 bytes; the same seed gives the same pair.
    func proofKeyPair(seed: [UInt8]) throws(VaultFailure) -> ProofKeyPair

    /// Returns the ES256 signature over a message: `r` and `s`, 32 bytes each (RFC 7518 section 3.4).
    func es256Signature(over message: [UInt8], by key: ProofKeyPair) throws(VaultFailure) -> [UInt8]

    /// Returns the SHA-256 of the bytes.
    func digest(_ bytes: [UInt8]) -> Digest

    /// Returns `count` random bytes; throws when the generator fails.
    func random(_ count: Int) throws(VaultFailure) -> [UInt8]
}

extension RecordWriter {
    /// Writes a key, as its scalar and its point.
    mutating func key(_ key: ProofKeyPair) {
        string(key.scalar.reveal())
        string(Base64URL.encode(key.publicKey.x))
        string(Base64URL.encode(key.publicKey.y))
    }
}

extension RecordReader {
    mutating func key() throws(RecordFailure) -> ProofKeyPair {
        let scalar = try secret()
        guard let x = Base64URL.decode(try string()), let y = Base64URL.decode(try string()),
            let publicKey = ProofKey(x: x, y: y), Base64URL.isToken(scalar.reveal(), length: 43...43)
        else { throw .malformed }
        return ProofKeyPair(publicKey: publicKey, scalar: scalar)
    }
}
