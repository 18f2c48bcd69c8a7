/// The names of all faults.
///
/// A misspelt name is refused, so that a test cannot pass by mistake.
enum FaultName {
    static let transport: Set<String> = [
        "slow", "slow-after", "hang", "status", "drop-before", "drop-after", "truncate", "html-200", "empty-200",
        "huge",
        "gzip-bomb", "redirect", "headers", "rate-limited",
    ]
    static let callback: Set<String> = [
        "wrong-iss-callback", "no-iss-callback", "error-callback", "duplicate-code-callback", "no-state-callback",
        "wrong-state-callback", "extra-callback", "wrong-merchant-callback", "dead-session-callback",
        "unauthorized-user", "other-user-callback",
    ]
    static let tokenAnswer: Set<String> = [
        "crlf-token", "array-token", "empty-token", "no-access-token", "long-token", "no-expires-in", "expires-in",
        "no-token-type", "token-type-mac", "token-type-lower", "token-type-inverted", "token-type-bearer",
        "no-refresh-token", "no-id-token",
        "scope-array",
        "no-scope",
        "error-200", "error-object", "duplicate-member", "rotate-strict",
    ]
    static let idTokenClaims: Set<String> = [
        "invalid-iss", "missing-iss", "missing-aud", "invalid-aud", "aud-array", "invalid-secondary-aud",
        "secondary-aud-azp", "wrong-azp", "missing-iat", "future-iat", "old-iat", "nbf-future", "missing-sub",
        "empty-sub", "number-sub", "long-sub", "expired", "missing-exp", "exp-huge", "exp-string", "fractional-exp",
        "nonce-invalid", "nonce-missing", "invalid-athash", "missing-athash", "claims", "refresh-invalid-sub",
        "refresh-invalid-issuer", "wrong-tid", "missing-tid", "missing-auth-time",
    ]
    static let idTokenSignature: Set<String> = [
        "invalid-sig-rs256", "invalid-sig-es256", "invalid-sig-ps256", "invalid-sig-eddsa", "idtoken-sig-none",
        "hs256-with-public-key", "kid-absent", "kid-absent-single-jwks", "kid-absent-multiple-jwks", "unknown-kid",
        "signing-key-rotation", "signing-key-rotation-just-before-signing", "signing-key-rotation-keep",
        "embedded-jwk", "foreign-key", "crit-header", "jku-header", "alg", "alg-header", "header",
    ]
    static let metadata: Set<String> = [
        "discovery-issuer-mismatch", "discovery-issuer-slash", "discovery-no-issuer", "discovery-no-jwks-uri",
        "discovery-no-token-endpoint", "discovery-no-iss-parameter", "discovery-not-object", "jwks-no-alg",
        "discovery-no-end-session", "jwks-empty", "jwks-strange-keys",
    ]
    static let logOut: Set<String> = ["end-session-confirm"]
    static let identity: Set<String> = [
        "userinfo-invalid-sub", "userinfo-missing-sub", "userinfo-sub-number", "userinfo-signed",
        "userinfo-not-object", "account-no-email",
    ]
    static let possession: Set<String> = [
        "forgets-nonces", "repeats-nonce", "refuses-proof", "inverted-scheme", "bound-to-another",
    ]
    static let target: Set<String> = ["refused-target", "exchange-refresh-token"]
    static let zephr: Set<String> = [
        "register-exists", "register-domain", "register-weak", "register-key-unknown", "register-key-expired",
        "register-key-spent", "register-no-session", "register-body-cookie-only", "register-header-cookie-only",
        "empty-error", "html-error", "text-error",
    ]

    /// All names, except for those that begin with `expires-in-`, which end with a value.
    static let all = [
        transport, callback, tokenAnswer, idTokenClaims, idTokenSignature, metadata, logOut, identity, zephr,
        possession, target, Quirks.names,
    ].reduce(into: Set<String>()) { $0.formUnion($1) }

    static func isKnown(_ name: String) -> Bool { name.hasPrefix("expires-in-") || all.contains(name) }
}
