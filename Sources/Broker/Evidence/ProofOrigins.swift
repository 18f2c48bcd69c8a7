/// The origins that a proof's `htu` may name.
///
/// The origins come from the configuration, and never from a request's `Host` field.
package struct ProofOrigins: Sendable, Equatable {
    private let origins: Set<String>
    /// The scheme of `publicURL` if its host is a loopback name or address; nil otherwise.
    ///
    /// If `publicURL` is such an address, a proof may name any loopback host, because phone emulators call the broker by
    /// several loopback names.
    private let loopbackScheme: Substring?

    /// Creates the origins of a broker: that of `publicURL`, and one for each name in `hosts` with the scheme of `publicURL`.
    package init(publicURL: String = "", hosts: [String] = []) {
        let scheme = publicURL.prefix { $0 != ":" }
        let addresses = ([publicURL] + hosts.map { "\(scheme)://\($0)" }).compactMap { ProofAddress($0) }
        origins = Set(addresses.map(\.origin))
        loopbackScheme = addresses.first.flatMap { $0.isLoopback ? scheme : nil }
    }

    /// Creates the origins of the given addresses.
    package init(_ addresses: [ProofAddress]) {
        origins = Set(addresses.map(\.origin))
        loopbackScheme = nil
    }

    /// Returns whether the origin of an address is one of these origins, or is accepted as a loopback origin.
    package func contains(_ address: ProofAddress) -> Bool {
        if origins.contains(address.origin) { return true }
        guard let loopbackScheme else { return false }
        return address.isLoopback && address.origin.hasPrefix(loopbackScheme + ":")
    }
}
