/// The origins that a proof's `htu` may name, from the configuration and never from a `Host` field.
package struct ProofOrigins: Sendable, Equatable {
    private let origins: Set<String>
    /// The scheme of `publicURL` if its host is a loopback name or address; nil otherwise.
    ///
    /// A proof may then name any loopback host, because emulators call the broker by several loopback names.
    private let loopbackScheme: Substring?

    /// Creates the origins of a broker, from `publicURL` and from its scheme with each name in `hosts`.
    package init(publicURL: String = "", hosts: [String] = []) {
        let scheme = publicURL.prefix { $0 != ":" }
        let addresses = ([publicURL] + hosts.map { "\(scheme)://\($0)" }).compactMap { ProofAddress($0) }
        origins = Set(addresses.map(\.origin))
        loopbackScheme = addresses.first.flatMap { $0.isLoopback ? scheme : nil }
    }

    /// Creates the origins of addresses.
    package init(_ addresses: [ProofAddress]) {
        origins = Set(addresses.map(\.origin))
        loopbackScheme = nil
    }

    /// Returns whether an address is at one of these origins.
    package func contains(_ address: ProofAddress) -> Bool {
        if origins.contains(address.origin) { return true }
        guard let loopbackScheme else { return false }
        return address.isLoopback && address.origin.hasPrefix(loopbackScheme + ":")
    }
}
