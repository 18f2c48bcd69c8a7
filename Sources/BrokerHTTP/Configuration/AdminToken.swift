package import Broker

/// What an admin token is good for (`management.admin_tokens.may`): to list sessions and keys, to end sessions, to back up
/// and seal again, to compare configurations.
package enum AdminPermission: String, Sendable, CaseIterable { case read, end, maintain, configure }

/// An operator's credential for the management listener, known by its hash only (SEC-97).
package struct AdminToken: Sendable {
    /// The name in the audit.
    package let name: String
    package let digest: Digest
    package let may: Set<AdminPermission>

    package init(name: String, digest: Digest, may: Set<AdminPermission>) {
        self.name = name
        self.digest = digest
        self.may = may
    }
}
