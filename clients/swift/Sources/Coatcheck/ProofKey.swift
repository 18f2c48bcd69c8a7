import Foundation

/// A P-256 key of this device, to which its sessions belong: ``SecureEnclaveProofKey``, or your own.
///
/// A session that was made with one is opened by nobody who has its cookie or token alone. See `docs/apps/bound-sessions.md`. A key
/// that asks for the user each time, as ``SecureEnclavePresenceKey`` does, is another of the same kind.
public protocol ProofKey: Sendable {
    /// Returns the public key; nil where there is none, yet or any more.
    ///
    /// Throws where the device cannot say so now, as before its first unlock: that is not a lost key.
    func publicKey() async throws -> ProofPublicKey?
    /// Makes a key, in place of one that no longer signs; called by sign-ins alone, and by
    /// ``Coatcheck/registerPresenceKey()``.
    func make() async throws -> ProofPublicKey
    /// Returns the ES256 signature over the bytes: `r` and `s`, 32 bytes each.
    ///
    /// Throws ``CoatcheckError/keyLost`` where the key will never sign again, ``CoatcheckError/cancelled`` where the user
    /// was asked and would not.
    func signature(over bytes: Data) async throws -> Data
}

/// The public half of a ``ProofKey``.
public struct ProofPublicKey: Sendable, Hashable {
    /// The point's first coordinate, 32 bytes.
    public let x: Data
    /// The point's second coordinate, 32 bytes.
    public let y: Data

    /// Creates a key of a point's coordinates, 32 bytes each; nil for other lengths.
    public init?(x: Data, y: Data) {
        guard x.count == 32, y.count == 32 else { return nil }
        (self.x, self.y) = (x, y)
    }

    /// Creates a key of an uncompressed point, as `x963Representation` and `SecKeyCopyExternalRepresentation` give it.
    public init?(x963 point: Data) {
        guard point.count == 65, point.first == 4 else { return nil }
        self.init(x: Data(point.dropFirst().prefix(32)), y: Data(point.suffix(32)))
    }

    /// The JSON Web Key, its members in the order of their names: the form of which RFC 7638 takes the thumbprint.
    public var jwk: String { #"{"crv":"P-256","kty":"EC","x":"\#(x.base64URL)","y":"\#(y.base64URL)"}"# }

    /// The thumbprint (RFC 7638), by which a session names its key.
    public var thumbprint: String { SHA256.digest(of: Data(jwk.utf8)).base64URL }
}
