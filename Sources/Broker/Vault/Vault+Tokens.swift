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
