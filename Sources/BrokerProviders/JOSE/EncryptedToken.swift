import Broker
import Crypto
import Foundation

/// A compact JWE with `A256GCM` (RFC 7516 section 3.1).
struct EncryptedToken {
    /// The algorithms that wrap the content key (RFC 7518 section 4.1).
    enum Algorithm: String {
        case rsa = "RSA-OAEP-256"
        case agreement = "ECDH-ES+A256KW"
    }

    private static let encryption = "A256GCM"
    /// The longest accepted header, in bytes.
    private static let maximumHeader = 4096

    let algorithm: Algorithm
    let epk: JSONObject?
    let wrapped: [UInt8]
    /// The header's segment as text, which the tag covers.
    private let header: [UInt8]
    private let iv: [UInt8]
    private let ciphertext: [UInt8]
    private let tag: [UInt8]

    /// Splits a token; nil unless it has five segments and a known algorithm, and lacks extensions.
    init?(_ bytes: [UInt8]) {
        let parts = bytes.split(separator: UInt8(ascii: "."), maxSplits: 5, omittingEmptySubsequences: false)
        guard parts.count == 5, parts[0].count <= Self.maximumHeader, let text = Base64URL.decode(parts[0]),
            let object = try? JSONParser.parseObject(text, maximumBytes: Self.maximumHeader),
            object["crit"] == nil, object["zip"] == nil, object["enc"]?.string == Self.encryption,
            let algorithm = object["alg"]?.string.flatMap({ Algorithm(rawValue: $0) }),
            let wrapped = Base64URL.decode(parts[1]), let iv = Base64URL.decode(parts[2]), iv.count == 12,
            let ciphertext = Base64URL.decode(parts[3]), let tag = Base64URL.decode(parts[4]), tag.count == 16
        else { return nil }
        self.algorithm = algorithm
        epk = object["epk"]?.object
        header = Array(parts[0])
        (self.wrapped, self.iv, self.ciphertext, self.tag) = (wrapped, iv, ciphertext, tag)
    }

    /// Returns the plaintext; nil if the key is wrong or the token was changed.
    func open(_ content: SymmetricKey) -> [UInt8]? {
        guard let nonce = try? AES.GCM.Nonce(data: iv),
            let box = try? AES.GCM.SealedBox(nonce: nonce, ciphertext: ciphertext, tag: tag)
        else { return nil }
        return (try? AES.GCM.open(box, using: content, authenticating: header)).map { Array($0) }
    }

    /// Returns the header as JSON.
    static func header(_ algorithm: Algorithm, epk: AgreementPoint?) -> [UInt8] {
        var writer = JSONWriter(capacity: 256)
        writer.object { writer in
            writer.member("alg", algorithm.rawValue)
            writer.member("enc", encryption)
            guard let epk else { return }
            writer.name("epk")
            writer.object { writer in
                writer.member("kty", "EC")
                writer.member("crv", epk.curve)
                writer.member("x", Base64URL.encode(epk.x))
                writer.member("y", Base64URL.encode(epk.y))
            }
        }
        return writer.bytes
    }

    /// Seals a plaintext with a content key, which is already wrapped.
    static func seal(
        _ plaintext: [UInt8], header: [UInt8], _ content: SymmetricKey, wrapped: [UInt8]
    ) throws -> String {
        let protected = Base64URL.encode(header)
        let box = try AES.GCM.seal(plaintext, using: content, authenticating: Array(protected.utf8))
        return [
            protected, Base64URL.encode(wrapped), Base64URL.encode(Array(box.nonce)),
            Base64URL.encode(Array(box.ciphertext)), Base64URL.encode(Array(box.tag)),
        ].joined(separator: ".")
    }

    /// Derives the key that wraps the content key from an agreed secret (RFC 7518 section 4.6.2).
    static func wrappingKey(of secret: [UInt8]) -> SymmetricKey {
        let name = Array(Algorithm.agreement.rawValue.utf8)
        var hash = SHA256()
        // The first and only round, because one hash has the 256 bits.
        hash.update(data: word(1))
        hash.update(data: secret)
        hash.update(data: word(name.count))
        hash.update(data: name)
        // The names of both parties are empty.
        hash.update(data: word(0))
        hash.update(data: word(0))
        hash.update(data: word(256))
        return SymmetricKey(data: Array(hash.finalize()))
    }

    private static func word(_ value: Int) -> [UInt8] {
        withUnsafeBytes(of: UInt32(truncatingIfNeeded: value).bigEndian) { Array($0) }
    }
}
