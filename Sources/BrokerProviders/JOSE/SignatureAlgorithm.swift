/// An asymmetric JWS algorithm (RFC 7518, RFC 8037).
///
/// Two algorithms are left out (SEC-25): `none`, because anyone could make such a token; and HMAC, because the client, which
/// knows the secret, could.
package enum SignatureAlgorithm: String, Sendable, CaseIterable {
    case rs256 = "RS256"
    case rs384 = "RS384"
    case rs512 = "RS512"
    case ps256 = "PS256"
    case ps384 = "PS384"
    case ps512 = "PS512"
    case es256 = "ES256"
    case es384 = "ES384"
    case es512 = "ES512"
    case edDSA = "EdDSA"

    /// Returns the algorithm of the given name.
    ///
    /// `Ed25519` is RFC 9864's name for EdDSA with an Ed25519 key, the only EdDSA key that is accepted.
    package init?(name: String) {
        self.init(rawValue: name == Self.fullyNamedEdDSA ? Self.edDSA.rawValue : name)
    }

    /// The second name of EdDSA with an Ed25519 key (RFC 9864 section 2.2).
    package static let fullyNamedEdDSA = "Ed25519"

    /// Returns the algorithm's name for the header of a token that the broker signs.
    ///
    /// If the provider lists exactly one name of the algorithm, that name is used, and otherwise the configured name.
    func name(listed: [String]?, configured: String?) -> String {
        let names = self == .edDSA ? [rawValue, Self.fullyNamedEdDSA] : [rawValue]
        let known = names.filter { listed?.contains($0) == true }
        return known.count == 1 ? known[0] : configured ?? rawValue
    }

    /// Returns whether a list from a provider's metadata contains the algorithm under one of its names.
    package func isListed(in names: [String]) -> Bool { names.contains { SignatureAlgorithm(name: $0) == self } }

    /// The key type (`kty`) that the algorithm requires.
    var keyType: String {
        switch self {
        case .rs256, .rs384, .rs512, .ps256, .ps384, .ps512: "RSA"
        case .es256, .es384, .es512: "EC"
        case .edDSA: "OKP"
        }
    }

    /// The curve (`crv`) that the algorithm requires; nil for RSA.
    var curve: String? {
        switch self {
        case .es256: "P-256"
        case .es384: "P-384"
        case .es512: "P-521"
        case .edDSA: "Ed25519"
        default: nil
        }
    }
}
