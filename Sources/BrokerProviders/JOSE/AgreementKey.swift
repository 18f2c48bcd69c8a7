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
    var derRepresentation: Data { get }

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
        func key<Key: CurvePublicKey>(_: Key.Type) -> (any AgreementKey)? { try? Key(pemRepresentation: pem) }
        return key(P256.KeyAgreement.PublicKey.self) ?? key(P384.KeyAgreement.PublicKey.self)
            ?? key(P521.KeyAgreement.PublicKey.self)
    }

    /// Reads a private key in PEM; nil for a key of another kind.
    static func readPrivate(_ pem: String) -> (any AgreementPrivateKey)? {
        func key<Key: CurvePrivateKey>(_: Key.Type) -> (any AgreementPrivateKey)? { try? Key(pemRepresentation: pem) }
        return key(P256.KeyAgreement.PrivateKey.self) ?? key(P384.KeyAgreement.PrivateKey.self)
            ?? key(P521.KeyAgreement.PrivateKey.self)
    }
}

/// The members that the library's public keys of all curves share.
private protocol CurvePublicKey: AgreementKey {
    associatedtype Private: CurvePrivateKey where Private.Public == Self
    /// The curve's name in a JWK, and the length of a coordinate in bytes.
    static var curve: (name: String, bytes: Int) { get }
    var rawRepresentation: Data { get }

    init(pemRepresentation: String) throws
    init<Bytes: ContiguousBytes>(rawRepresentation: Bytes) throws
}

/// The members that the library's private keys of all curves share.
private protocol CurvePrivateKey: AgreementPrivateKey {
    associatedtype Public: CurvePublicKey
    var publicKey: Public { get }

    init(compactRepresentable: Bool)
    init(pemRepresentation: String) throws
    func sharedSecretFromKeyAgreement(with publicKeyShare: Public) throws -> SharedSecret
}

extension P256.KeyAgreement.PublicKey: CurvePublicKey {
    typealias Private = P256.KeyAgreement.PrivateKey
    static let curve = (name: "P-256", bytes: 32)
}

extension P384.KeyAgreement.PublicKey: CurvePublicKey {
    typealias Private = P384.KeyAgreement.PrivateKey
    static let curve = (name: "P-384", bytes: 48)
}

extension P521.KeyAgreement.PublicKey: CurvePublicKey {
    typealias Private = P521.KeyAgreement.PrivateKey
    static let curve = (name: "P-521", bytes: 66)
}

extension P256.KeyAgreement.PrivateKey: CurvePrivateKey {}
extension P384.KeyAgreement.PrivateKey: CurvePrivateKey {}
extension P521.KeyAgreement.PrivateKey: CurvePrivateKey {}

extension CurvePublicKey {
    func agree() throws -> (epk: AgreementPoint, secret: [UInt8]) {
        let own = Private(compactRepresentable: false)
        let (point, curve) = (Array(own.publicKey.rawRepresentation), Self.curve)
        let epk = AgreementPoint(
            curve: curve.name, x: Array(point.prefix(curve.bytes)), y: Array(point.dropFirst(curve.bytes)))
        return (epk, try own.sharedSecretFromKeyAgreement(with: self).withUnsafeBytes { Array($0) })
    }
}

extension CurvePrivateKey {
    func agree(with epk: JSONObject) -> [UInt8]? {
        let curve = Public.curve
        guard epk["kty"]?.string == "EC", epk["crv"]?.string == curve.name,
            let x = epk["x"]?.string.flatMap({ Base64URL.decode($0) }), x.count == curve.bytes,
            let y = epk["y"]?.string.flatMap({ Base64URL.decode($0) }), y.count == curve.bytes,
            let other = try? Public(rawRepresentation: x + y),
            let secret = try? sharedSecretFromKeyAgreement(with: other)
        else { return nil }
        return secret.withUnsafeBytes { Array($0) }
    }
}
