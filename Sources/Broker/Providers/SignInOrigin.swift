/// The user whose sign-in brought some tokens, and the sign-in itself, as index digests.
///
/// A session's row has the same two digests.
package struct SignInOrigin: Sendable, Equatable {
    /// Index digest of (issuer, subject).
    package var subject: Digest
    /// Index digest of (issuer, `sid`); nil if the provider sends no `sid`.
    package var sid: Digest?
}

extension SignInOrigin {
    /// Creates the origin of a session's tokens.
    package init(_ row: SessionRow) { self.init(subject: row.subject, sid: row.sid) }
}
