/// The policy for the address at the other end of an outgoing connection (SEC-74).
///
/// The address is checked after connecting, because a name may have resolved to another address a moment ago.
package enum AddressPolicy: Sendable, CaseIterable {
    /// Only addresses of the public Internet are allowed.
    case publicOnly
    /// Only loopback addresses are allowed, because the configured URL names one.
    case loopbackOnly
    /// Any address is allowed, because the configuration marks the called server as internal, or an outbound proxy makes the
    /// connection.
    case any

    /// Returns whether a connection to `address` may be used; only `any` accepts an unknown address.
    package func allows(_ address: IPAddress?) -> Bool {
        switch self {
        case .any: true
        case .loopbackOnly: address?.isLoopback ?? false
        case .publicOnly: address?.isPublic ?? false
        }
    }
}
