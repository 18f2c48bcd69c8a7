/// Which addresses an outgoing connection may end at, checked after connecting, on the address that is really there
/// (SEC-74): what a name resolved to a moment ago does not count.
package enum AddressPolicy: Sendable, CaseIterable {
    /// Addresses of the public Internet only.
    case publicOnly
    /// Loopback only: the configured URL names it.
    case loopbackOnly
    /// Anything: the configuration marks the other side as internal, or an outbound proxy connects for us.
    case any

    /// Returns whether a connection to `address` may be used; one without a known address may not.
    package func allows(_ address: IPAddress?) -> Bool {
        switch self {
        case .any: true
        case .loopbackOnly: address?.isLoopback ?? false
        case .publicOnly: address?.isPublic ?? false
        }
    }
}
