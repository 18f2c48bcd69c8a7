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

    /// Returns the session token `base64url(HMAC-SHA256(K, salt ‖ proof))` with the purpose key of ring key `keyID`
    /// (decision 4), 43 characters.
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

/// The kind of a sealed value.
///
/// The kind is part of the associated data, so a value that was moved to another column or table fails to open (SEC-48). Each
/// kind has its own key, derived from the ring's key (SEC-110).
package enum SealedKind: String, Sendable, CaseIterable {
    case login
    case session
    case tokens
    case registration
    case outcome
    case outbox
    case presence
    /// An access token for another API than the session's own.
    case audience
}

/// The role of the input of an index digest, so that equal inputs in different roles have different digests.
package enum IndexKind: String, Sendable, CaseIterable {
    case code
    case handoff
    /// A handoff, derived from a callback of a login.
    case handoffToken
    case zephrSession
    case stateKey
    case registrationRequest
    case subject
    case subjectAndClient
    case sid
    case provider
    case client
    case logoutToken
    case logTag
    case importedTokens
    /// An id_token that an app handed over, without its signature.
    case idToken
    /// The minute of a proof's nonce.
    case proofNonce
    /// The end of a bound session's pass.
    case sessionPass
    /// The kind and name of a child in its parent's family.
    case childPlace
    /// The seed of a key that a provider binds tokens to, if the key was made without a login.
    case tokenKey
    /// The owner and the exact request parameters of a session's access token for another API.
    case audience
    /// A ticket of a hand-over, and one of the eight rows that a session has for tickets.
    case handoverTicket, handoverSlot
}
