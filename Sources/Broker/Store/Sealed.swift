/// A sealed value as stored in a row: the key's id and the envelope (version, nonce, ciphertext, tag).
package struct Sealed: Sendable, Hashable {
    /// The id of the key in the key ring that sealed the value.
    package let keyID: String
    /// The envelope: version, nonce, ciphertext and tag.
    package let envelope: [UInt8]

    /// Creates a sealed value from a row's columns.
    package init(keyID: String, envelope: [UInt8]) {
        self.keyID = keyID
        self.envelope = envelope
    }
}
