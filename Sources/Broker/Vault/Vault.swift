/// Seals, opens, digests and makes randomness.
///
/// The one implementation stands on the system's OpenSSL (decision 3).
package protocol Vault: ProofSigner {
    /// Seals `plaintext` for the row whose key is `row` under the ring's first key, with a fresh nonce.
    func seal(_ plaintext: [UInt8], as kind: SealedKind, row: Digest) throws(VaultFailure) -> Sealed

    /// Opens a sealed value; `unknownKey` when this process does not have the key (yet), `doesNotOpen` for anything else.
    func open(_ sealed: Sealed, as kind: SealedKind, row: Digest) throws(VaultFailure) -> [UInt8]

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
}

extension Vault {
    package var isTheStores: Bool { true }
}

extension Vault {
    /// Returns the SHA-256 of a secret's text: how login and session tokens are looked up.
    package func digest(_ secret: Secret) -> Digest { digest(secret.bytes()) }

    /// Returns a fresh secret of `count` random bytes as base64url (32 bytes make 43 characters).
    package func randomToken(bytes count: Int = 32) throws(VaultFailure) -> Secret {
        Secret(Base64URL.encode(try random(count)))
    }

    /// Returns the PKCE S256 challenge of a verifier (RFC 7636 section 4.2).
    package func codeChallenge(of verifier: Secret) -> String { Base64URL.encode(digest(verifier).bytes) }
}

/// The reason for which the vault could not do it.
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

/// Says what a sealed value is.
///
/// It is part of the associated data, so a value moved to another column or table does not open (SEC-48), and it has a
/// key of its own derived from the ring's key (SEC-110).
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

/// Says what an index digest is over, so that equal values in different roles give different digests.
package enum IndexKind: String, Sendable, CaseIterable {
    case code
    case handoff
    /// The handoff itself, which stands for a callback of a login.
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
    /// The place of a child in its parent's family.
    case childPlace
    /// The seed of a key that a provider binds tokens to, where it was not made with a login.
    case tokenKey
    /// A session's access token for another API: whose, and the exact parameters that it is asked for with.
    case audience
    /// A ticket of a hand-over, and one of the places that a session has for them.
    case handoverTicket, handoverSlot
}
