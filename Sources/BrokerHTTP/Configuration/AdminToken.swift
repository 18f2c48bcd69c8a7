package import Broker

/// An operator's credential for the management listener, stored only as a hash (SEC-97).
package struct AdminToken: Sendable {
    /// The token's name in the audit log.
    package let name: String
    package let digest: Digest
    package let may: Set<AdminPermission>

    package init(name: String, digest: Digest, may: Set<AdminPermission>) {
        self.name = name
        self.digest = digest
        self.may = may
    }
}
