/// The data for storing a session's first presence key.
package struct PresenceCommit: Sendable {
    package let tokenDigest: Digest
    package let sealed: Sealed
    /// The audit record, written in the same transaction.
    package let audit: AuditRow

    package init(tokenDigest: Digest, sealed: Sealed, audit: AuditRow) {
        self.tokenDigest = tokenDigest
        self.sealed = sealed
        self.audit = audit
    }
}
