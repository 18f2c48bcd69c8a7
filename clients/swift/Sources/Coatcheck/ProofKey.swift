import Foundation

/// The P-256 key of this device's bound sessions: ``SecureEnclaveProofKey``, or your own.
///
/// The cookie or token of such a session is useless without the key. See `docs/apps/bound-sessions.md`. A key that asks
/// the user before each signature, like ``SecureEnclavePresenceKey``, implements the same protocol.
public protocol ProofKey: Sendable {
    /// Returns the public key, or nil if no key was made yet or the key is lost.
    ///
    /// Throws if the key exists but is temporarily unavailable, for example before the device's first unlock.
    func publicKey() async throws -> ProofPublicKey?
    /// Makes the first key, or one that replaces a lost key.
    ///
    /// Only sign-ins and ``Coatcheck/registerPresenceKey()`` call this method.
    func make() async throws -> ProofPublicKey
    /// Returns the ES256 signature over the bytes: `r` and `s`, 32 bytes each.
    ///
    /// Throws ``CoatcheckError/keyLost`` if the key can never sign again. Throws ``CoatcheckError/cancelled`` if the user
    /// refused.
    func signature(over bytes: Data) async throws -> Data
}

/// The public half of a ``ProofKey``.
public struct ProofPublicKey: Sendable, Hashable {
    /// The point's first coordinate, 32 bytes.
    public let x: Data
    /// The point's second coordinate, 32 bytes.
    public let y: Data

    /// Creates a key from a point's coordinates, 32 bytes each.
    ///
    /// Returns nil for other lengths.
    public init?(x: Data, y: Data) {
        guard x.count == 32, y.count == 32 else { return nil }
        (self.x, self.y) = (x, y)
    }

    /// Creates a key from an uncompressed point, as `x963Representation` and `SecKeyCopyExternalRepresentation` return it.
    public init?(x963 point: Data) {
        guard point.count == 65, point.first == 4 else { return nil }
        self.init(x: Data(point.dropFirst().prefix(32)), y: Data(point.suffix(32)))
    }

    /// The JSON Web Key with its members sorted by name.
    ///
    /// RFC 7638 computes the thumbprint from this form.
    public var jwk: String { #"{"crv":"P-256","kty":"EC","x":"\#(x.base64URL)","y":"\#(y.base64URL)"}"# }

    /// The thumbprint (RFC 7638), which identifies the key in a session.
    public var thumbprint: String { SHA256.digest(of: Data(jwk.utf8)).base64URL }
}
