/// The known translators that connect IPv4 clients to the broker over IPv6 (RFC 6052).
///
/// Each translator has a prefix of 96 bits, and the client's IPv4 address follows the prefix. All IPv4 clients behind one
/// translator are in the same /64. Without this type, the limits would count them as one address.
package struct AddressTranslators: Sendable {
    private let prefixes: [IPNetwork]

    /// Creates the translators with the well-known prefix (`64:ff9b::/96`) and further prefixes.
    package init(_ further: [IPNetwork] = []) {
        prefixes = [SpecialPurposeAddresses.translated] + further.filter(\.isTranslators)
    }

    /// Returns the address that limits count for a client: for a translated address, the IPv4 address in it.
    package func client(_ address: IPAddress) -> IPAddress {
        guard !address.isIPv4, prefixes.contains(where: { $0.contains(address) }) else { return address }
        return IPAddress(v4: UInt32(truncatingIfNeeded: address.low))
    }
}
