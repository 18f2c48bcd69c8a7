/// A sealed value as it lies in a row: the key's id and the envelope (version, nonce, ciphertext, tag).
package struct Sealed: Sendable, Hashable {
    /// The id of the key ring's key that sealed it.
    package let keyID: String
    /// The envelope.
    package let envelope: [UInt8]

    /// Creates a sealed value from a row's columns.
    package init(keyID: String, envelope: [UInt8]) {
        self.keyID = keyID
        self.envelope = envelope
    }
}
