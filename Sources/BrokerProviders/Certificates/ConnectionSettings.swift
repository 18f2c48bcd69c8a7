/// The settings `tls`: certificate and trust roots for a client's connections.
package struct ConnectionSettings: Sendable {
    /// `certificate` and `key`: the certificate that the client shows, if any.
    package var identity: ClientIdentity?
    /// `ca_file`: trust roots in addition to the system's and `outbound.ca_file`.
    package var trust: TrustRoots?

    package init(identity: ClientIdentity? = nil, trust: TrustRoots? = nil) {
        self.identity = identity
        self.trust = trust
    }
}
