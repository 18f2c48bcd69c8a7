package import Broker
import Crypto
import CryptoExtras
import Foundation

/// The private key that opens an export.
package struct ImportKey: Sendable {
    private enum Kind: Sendable {
        /// The key in PEM, because tasks may share it, unlike the library's type.
        case rsa(Secret)
        case agreement(any AgreementPrivateKey)
    }

    private let kind: Kind

    /// Reads a private key in PEM; throws a sentence for any other text.
    package init(pem: String) throws(ExportKeyFailure) {
        guard pem.contains("PRIVATE KEY-----") else { throw ExportKeyFailure("has to be a private key in PEM") }
        if let key = try? _RSA.Encryption.PrivateKey(unsafePEMRepresentation: pem) {
            guard key.keySizeInBits >= ExportKey.smallestRSA else {
                throw ExportKeyFailure(
                    "is an RSA key of \(key.keySizeInBits) bits: at least \(ExportKey.smallestRSA) are needed")
            }
            kind = .rsa(Secret(key.pemRepresentation))
        } else if let key = AgreementKeys.readPrivate(pem) {
            kind = .agreement(key)
        } else {
            throw ExportKeyFailure(
                "has to be an RSA key, or a key on P-256, P-384 or P-521; decrypt a key with a password first")
        }
    }

    /// Returns the plaintext of a line; nil if this key fails to open it.
    package func open(_ line: [UInt8]) -> [UInt8]? {
        guard let token = EncryptedToken(line) else { return nil }
        let content: SymmetricKey?
        switch (kind, token.algorithm) {
        case (.rsa(let pem), .rsa):
            content = (try? _RSA.Encryption.PrivateKey(pemRepresentation: pem.reveal()))
                .flatMap { try? $0.decrypt(token.wrapped, padding: .PKCS1_OAEP_SHA256) }
                .map { SymmetricKey(data: $0) }
        case (.agreement(let key), .agreement):
            content = token.epk.flatMap { key.agree(with: $0) }.flatMap { secret in
                try? AES.KeyWrap.unwrap(token.wrapped, using: EncryptedToken.wrappingKey(of: secret))
            }
        default: content = nil
        }
        guard let content, content.bitCount == 256 else { return nil }
        return token.open(content)
    }
}
