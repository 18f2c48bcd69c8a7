package import Broker

/// The setting `move_in: {from}`: the server that answers for sessions from before the move.
package struct OldSystemSettings: Sendable {
    /// `url`: the address of its claim route.
    package var url: EndpointURL
    /// `credential`: the bearer token that the broker sends to it.
    package var credential: Secret
    /// `ca_file`: trust roots in addition to the system's.
    package var trust: TrustRoots?
    /// `internal`: whether the server may be reached at private addresses.
    package var isInternal: Bool

    package init(url: EndpointURL, credential: Secret, trust: TrustRoots? = nil, isInternal: Bool = false) {
        self.url = url
        self.credential = credential
        self.trust = trust
        self.isInternal = isInternal
    }
}
