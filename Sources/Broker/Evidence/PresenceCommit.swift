/// The values for storing the first presence key of a session.
package struct PresenceCommit: Sendable {
    package let tokenDigest: Digest
    package let sealed: Sealed
    /// The audit record of the registration, which is written in the same transaction.
    package let audit: AuditRow

    package init(tokenDigest: Digest, sealed: Sealed, audit: AuditRow) {
        self.tokenDigest = tokenDigest
        self.sealed = sealed
        self.audit = audit
    }
}
