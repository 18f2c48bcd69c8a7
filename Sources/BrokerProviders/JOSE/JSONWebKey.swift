import Broker

/// One public key of a provider's set that could verify a signature (RFC 7517).
///
/// Other entries of the set are skipped.
struct JSONWebKey: Sendable {
    let keyID: String?
    let keyType: String
    let curve: String?
    /// `alg`: the only algorithm of the key, if it names one.
    let algorithm: String?
    /// `issuer`: Microsoft's restriction of a key to the tokens of one tenant.
    let issuer: String?
    /// The numbers of the key in base64url: modulus and exponent, or the coordinates.
    let first: String
    let second: String

    /// Reads one member of `keys`; returns nil unless it is a usable public signature key.
    init?(_ object: JSONObject) {
        guard let keyType = object["kty"]?.string else { return nil }
        // Null and empty optional members are absent.
        func optional(_ name: String) -> JSONValue? {
            guard let value = object.present(name), value != .string(""), value != .array([]) else { return nil }
            return value
        }
        if let use = optional("use") { guard use.string == "sig" else { return nil } }
        if let operations = optional("key_ops") {
            guard operations.array?.contains(.string("verify")) == true else { return nil }
        }
        if let kid = optional("kid") { guard kid.string != nil else { return nil } }
        if let alg = optional("alg") { guard alg.string != nil else { return nil } }
        if let issuer = optional("issuer") { guard issuer.string != nil else { return nil } }
        keyID = optional("kid")?.string
        algorithm = optional("alg")?.string
        issuer = optional("issuer")?.string
        self.keyType = keyType
        switch keyType {
        case "RSA":
            guard let n = Self.number(object["n"]), let e = Self.number(object["e"]), Self.isSoundRSA(n, e) else {
                return nil
            }
            (curve, first, second) = (nil, n, e)
        case "EC":
            guard let curve = object["crv"]?.string, let size = ["P-256": 32, "P-384": 48, "P-521": 66][curve],
                let x = Self.number(object["x"]).flatMap({ Self.coordinate($0, size: size) }),
                let y = Self.number(object["y"]).flatMap({ Self.coordinate($0, size: size) })
            else { return nil }
            (self.curve, first, second) = (curve, x, y)
        case "OKP":
            guard let curve = object["crv"]?.string, curve == "Ed25519", let x = Self.number(object["x"]),
                Base64URL.decode(x)?.count == 32
            else { return nil }
            (self.curve, first, second) = (curve, x, "")
        default: return nil
        }
    }

    /// The paddings that servers write after base64url: base64's own padding, and the padding of an old PHP helper.
    private static let paddings = ["==", "=", ",,", ","]

    /// Returns a number of the key in base64url, free of padding.
    ///
    /// Some servers write base64, or add padding. Only the numbers of keys are mended in this way, never the parts of a token.
    private static func number(_ value: JSONValue?) -> String? {
        guard let written = value?.string else { return nil }
        let text = written.replacing("+", with: "-").replacing("/", with: "_")
        let padding = paddings.first { text.hasSuffix($0) } ?? ""
        return String(text.dropLast(padding.count))
    }

    /// Returns a coordinate in its full size (RFC 7518 section 6.2.1.2).
    ///
    /// Some servers drop leading zeros, which one key in a hundred has.
    private static func coordinate(_ text: String, size: Int) -> String? {
        guard let bytes = Base64URL.decode(text), (size - 3...size).contains(bytes.count) else { return nil }
        return bytes.count == size ? text : Base64URL.encode([UInt8](repeating: 0, count: size - bytes.count) + bytes)
    }

    /// Returns whether an RSA key has 2048 to 8192 bits, and an odd public exponent of at least 3 in at most 32 bits (SEC-25).
    ///
    /// A shorter key or a smaller exponent is not secure. A longer key or exponent would cost too much CPU.
    private static func isSoundRSA(_ modulus: String, _ exponent: String) -> Bool {
        guard let n = Base64URL.decode(modulus)?.drop(while: { $0 == 0 }), let top = n.first,
            let e = Base64URL.decode(exponent)?.drop(while: { $0 == 0 }), let last = e.last, e.count <= 4
        else { return false }
        let bits = n.count * 8 - top.leadingZeroBitCount
        return (2048...8192).contains(bits) && last & 1 == 1 && (e.count > 1 || last >= 3)
    }

    /// Returns whether the key may verify this algorithm's signatures.
    func fits(_ algorithm: SignatureAlgorithm) -> Bool {
        keyType == algorithm.keyType && (algorithm.curve == nil || curve == algorithm.curve)
            && (self.algorithm.map { SignatureAlgorithm(name: $0) == algorithm } ?? true)
    }
}
