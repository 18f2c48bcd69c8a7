/// The result of checking a refreshed id_token.
package enum RefreshedSubject: Sendable, Equatable {
    /// The answer contained no id_token.
    case absent
    /// The id_token was verified, and names this subject.
    case subject(String)
    /// The verification of the id_token failed for the given reason, so its claims are dropped (SEC-59). `subject` is the
    /// user in the id_token, if the provider's signature is valid.
    case unverifiable(String, subject: String? = nil)
    /// The signature is valid, but for the given reason the id_token belongs to another session (OpenID Connect Core 12.2).
    case foreign(String)
}
