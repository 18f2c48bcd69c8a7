/// Whose tokens they are, and which sign-in at the provider they came from: index digests, as a session row has them.
package struct SignInOrigin: Sendable, Equatable {
    /// Index digest of (issuer, subject).
    package var subject: Digest
    /// Index digest of (issuer, `sid`); nil where the provider sends none.
    package var sid: Digest?

    package init(subject: Digest, sid: Digest?) {
        self.subject = subject
        self.sid = sid
    }

    /// Creates the origin of a session's tokens.
    package init(_ row: SessionRow) { self.init(subject: row.subject, sid: row.sid) }
}
