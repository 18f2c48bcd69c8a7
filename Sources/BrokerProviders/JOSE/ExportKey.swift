package import Broker
import Crypto
import CryptoExtras
import Foundation

/// The public key that seals an export: RSA of at least 2048 bits, or a NIST curve.
package struct ExportKey: ExportSealing {
    /// The smallest RSA key that is accepted, in bits.
    static let smallestRSA = 2048

    private enum Kind: Sendable {
        /// The key's DER form, because tasks may share it, unlike the library's type.
        case rsa(Data)
        case agreement(any AgreementKey)
    }

    private let kind: Kind
    package let name: String

    /// Reads a public key in PEM; throws a sentence for any other text, above all for a private key.
    package init(pem: String) throws(ExportKeyFailure) {
        guard !pem.contains("PRIVATE KEY") else {
            throw ExportKeyFailure(
                "is a private key: name the public key, and leave the private key with the export's reader")
        }
        guard pem.contains("PUBLIC KEY-----") else { throw ExportKeyFailure("has to be a public key in PEM") }
        if let key = try? _RSA.Encryption.PublicKey(unsafePEMRepresentation: pem) {
            guard key.keySizeInBits >= Self.smallestRSA else {
                throw ExportKeyFailure(
                    "is an RSA key of \(key.keySizeInBits) bits: at least \(Self.smallestRSA) are needed")
            }
            kind = .rsa(key.derRepresentation)
            name = Self.name(key.derRepresentation)
            return
        }
        guard let key = AgreementKeys.read(pem) else {
            throw ExportKeyFailure(
                "has to be an RSA key of at least \(Self.smallestRSA) bits, or a key on P-256, P-384 or P-521")
        }
        kind = .agreement(key)
        name = Self.name(key.derRepresentation)
    }

    private static func name(_ der: Data) -> String { Base64URL.encode(SHA256.hash(data: der)) }

    package func seal(_ plaintext: [UInt8]) throws(ExportKeyFailure) -> String {
        do {
            let content = SymmetricKey(size: .bits256)
            switch kind {
            case .rsa(let der):
                let wrapped = try _RSA.Encryption.PublicKey(derRepresentation: der).encrypt(
                    content.withUnsafeBytes { Data($0) }, padding: .PKCS1_OAEP_SHA256)
                return try EncryptedToken.seal(
                    plaintext, header: EncryptedToken.header(.rsa, epk: nil), content, wrapped: Array(wrapped))
            case .agreement(let key):
                let (epk, secret) = try key.agree()
                let wrapped = try AES.KeyWrap.wrap(content, using: EncryptedToken.wrappingKey(of: secret))
                return try EncryptedToken.seal(
                    plaintext, header: EncryptedToken.header(.agreement, epk: epk), content, wrapped: Array(wrapped))
            }
        } catch { throw ExportKeyFailure("cannot seal: \(error)") }
    }
}
