import Broker
import Crypto
import Foundation

/// A point on a NIST curve, for the header member `epk`.
struct AgreementPoint: Sendable, Equatable {
    let curve: String
    let x, y: [UInt8]
}

/// A public key for `ECDH-ES` (RFC 7518 section 4.6).
protocol AgreementKey: Sendable {
    var der: Data { get }

    /// Makes an ephemeral key, and returns its public point with the agreed secret.
    func agree() throws -> (epk: AgreementPoint, secret: [UInt8])
}

/// A private key for `ECDH-ES`.
protocol AgreementPrivateKey: Sendable {
    /// Returns the secret that is agreed with an ephemeral point; nil if the point is outside the key's curve.
    func agree(with epk: JSONObject) -> [UInt8]?
}

/// The curves that an export may use.
enum AgreementKeys {
    /// Reads a public key in PEM; nil for a key of another kind.
    static func read(_ pem: String) -> (any AgreementKey)? {
        if let key = try? P256.KeyAgreement.PublicKey(pemRepresentation: pem) { return PublicCurveKey<P256Curve>(key) }
        if let key = try? P384.KeyAgreement.PublicKey(pemRepresentation: pem) { return PublicCurveKey<P384Curve>(key) }
        if let key = try? P521.KeyAgreement.PublicKey(pemRepresentation: pem) { return PublicCurveKey<P521Curve>(key) }
        return nil
    }

    /// Reads a private key in PEM; nil for a key of another kind.
    static func readPrivate(_ pem: String) -> (any AgreementPrivateKey)? {
        if let key = try? P256.KeyAgreement.PrivateKey(pemRepresentation: pem) {
            return PrivateCurveKey<P256Curve>(key)
        }
        if let key = try? P384.KeyAgreement.PrivateKey(pemRepresentation: pem) {
            return PrivateCurveKey<P384Curve>(key)
        }
        if let key = try? P521.KeyAgreement.PrivateKey(pemRepresentation: pem) {
            return PrivateCurveKey<P521Curve>(key)
        }
        return nil
    }
}

/// The operations of the library's types for one curve, which lack a common protocol.
private protocol AgreementCurve: Sendable {
    associatedtype Public: Sendable
    associatedtype Private: Sendable
    static var name: String { get }
    static var bytes: Int { get }
    static func fresh() -> Private
    static func point(of key: Public) -> Data
    static func der(of key: Public) -> Data
    static func publicKey(of key: Private) -> Public
    static func publicKey(at point: [UInt8]) throws -> Public
    static func secret(_ own: Private, _ other: Public) throws -> SharedSecret
}

private enum P256Curve: AgreementCurve {
    static let name = "P-256"
    static let bytes = 32
    static func fresh() -> P256.KeyAgreement.PrivateKey { P256.KeyAgreement.PrivateKey() }
    static func point(of key: P256.KeyAgreement.PublicKey) -> Data { key.rawRepresentation }
    static func der(of key: P256.KeyAgreement.PublicKey) -> Data { key.derRepresentation }
    static func publicKey(of key: P256.KeyAgreement.PrivateKey) -> P256.KeyAgreement.PublicKey { key.publicKey }
    static func publicKey(at point: [UInt8]) throws -> P256.KeyAgreement.PublicKey {
        try P256.KeyAgreement.PublicKey(rawRepresentation: point)
    }
    static func secret(
        _ own: P256.KeyAgreement.PrivateKey, _ other: P256.KeyAgreement.PublicKey
    ) throws -> SharedSecret { try own.sharedSecretFromKeyAgreement(with: other) }
}

private enum P384Curve: AgreementCurve {
    static let name = "P-384"
    static let bytes = 48
    static func fresh() -> P384.KeyAgreement.PrivateKey { P384.KeyAgreement.PrivateKey() }
    static func point(of key: P384.KeyAgreement.PublicKey) -> Data { key.rawRepresentation }
    static func der(of key: P384.KeyAgreement.PublicKey) -> Data { key.derRepresentation }
    static func publicKey(of key: P384.KeyAgreement.PrivateKey) -> P384.KeyAgreement.PublicKey { key.publicKey }
    static func publicKey(at point: [UInt8]) throws -> P384.KeyAgreement.PublicKey {
        try P384.KeyAgreement.PublicKey(rawRepresentation: point)
    }
    static func secret(
        _ own: P384.KeyAgreement.PrivateKey, _ other: P384.KeyAgreement.PublicKey
    ) throws -> SharedSecret { try own.sharedSecretFromKeyAgreement(with: other) }
}

private enum P521Curve: AgreementCurve {
    static let name = "P-521"
    static let bytes = 66
    static func fresh() -> P521.KeyAgreement.PrivateKey { P521.KeyAgreement.PrivateKey() }
    static func point(of key: P521.KeyAgreement.PublicKey) -> Data { key.rawRepresentation }
    static func der(of key: P521.KeyAgreement.PublicKey) -> Data { key.derRepresentation }
    static func publicKey(of key: P521.KeyAgreement.PrivateKey) -> P521.KeyAgreement.PublicKey { key.publicKey }
    static func publicKey(at point: [UInt8]) throws -> P521.KeyAgreement.PublicKey {
        try P521.KeyAgreement.PublicKey(rawRepresentation: point)
    }
    static func secret(
        _ own: P521.KeyAgreement.PrivateKey, _ other: P521.KeyAgreement.PublicKey
    ) throws -> SharedSecret { try own.sharedSecretFromKeyAgreement(with: other) }
}

private struct PublicCurveKey<Curve: AgreementCurve>: AgreementKey {
    private let key: Curve.Public

    init(_ key: Curve.Public) { self.key = key }

    var der: Data { Curve.der(of: key) }

    func agree() throws -> (epk: AgreementPoint, secret: [UInt8]) {
        let own = Curve.fresh()
        let point = Array(Curve.point(of: Curve.publicKey(of: own)))
        let epk = AgreementPoint(
            curve: Curve.name, x: Array(point.prefix(Curve.bytes)), y: Array(point.dropFirst(Curve.bytes)))
        return (epk, try Curve.secret(own, key).withUnsafeBytes { Array($0) })
    }
}

private struct PrivateCurveKey<Curve: AgreementCurve>: AgreementPrivateKey {
    private let key: Curve.Private

    init(_ key: Curve.Private) { self.key = key }

    func agree(with epk: JSONObject) -> [UInt8]? {
        guard epk["kty"]?.string == "EC", epk["crv"]?.string == Curve.name,
            let x = epk["x"]?.string.flatMap({ Base64URL.decode($0) }), x.count == Curve.bytes,
            let y = epk["y"]?.string.flatMap({ Base64URL.decode($0) }), y.count == Curve.bytes,
            let other = try? Curve.publicKey(at: x + y), let secret = try? Curve.secret(key, other)
        else { return nil }
        return secret.withUnsafeBytes { Array($0) }
    }
}
