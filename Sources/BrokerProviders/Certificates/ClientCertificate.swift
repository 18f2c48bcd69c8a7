package import Broker
import Crypto
package import NIOSSL

/// A certificate that one of the broker's clients shows on its connections, with its key (RFC 8705).
package struct ClientCertificate: Sendable {
    /// The reason why a certificate cannot be shown, in words that follow "names a file that".
    package enum Failure: Error, Sendable, Equatable, CustomStringConvertible {
        case noCertificate
        case noKey
        case doesNotFit

        package var description: String {
            switch self {
            case .noCertificate: "holds no certificate in PEM"
            case .noKey: "holds no private key in PEM that is not encrypted"
            case .doesNotFit: "is not the key of the first certificate"
            }
        }
    }

    /// The certificate, followed by the other certificates in its file.
    package let chain: [NIOSSLCertificate]
    package let key: NIOSSLPrivateKey
    /// The digest of the whole certificate chain, which identifies it.
    ///
    /// Connections are kept separately for each chain.
    package let id: Broker.Digest
    /// The thumbprint that tokens name in `cnf` (`x5t#S256`, RFC 8705 section 3.1).
    package let thumbprint: String
    /// The first and the last second at which the whole chain is valid.
    package let validFrom: WallTime
    package let validUntil: WallTime

    /// Reads a certificate, its intermediates and its key, in PEM; throws the reason if they are unusable.
    ///
    /// The validity is not checked here, because the server itself refuses an expired certificate.
    package init(certificate: [UInt8], key: [UInt8]) throws(Failure) {
        guard let chain = try? NIOSSLCertificate.fromPEMBytes(certificate), let leaf = chain.first,
            let encoded = try? chain.map({ try $0.toDERBytes() }), let first = encoded.first,
            let id = Broker.Digest(Array(SHA256.hash(data: encoded.flatMap(\.self))))
        else { throw .noCertificate }
        guard let key = try? NIOSSLPrivateKey(bytes: key, format: .pem) else { throw .noKey }
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.certificateChain = chain.map { .certificate($0) }
        configuration.privateKey = .privateKey(key)
        // The system's trust roots take time to load and are irrelevant here.
        configuration.trustRoots = .certificates([leaf])
        guard (try? NIOSSLContext(configuration: configuration)) != nil else { throw .doesNotFit }
        self.chain = chain
        self.key = key
        self.id = id
        thumbprint = Base64URL.encode(Array(SHA256.hash(data: first)))
        validFrom = WallTime(seconds: chain.map { Int64($0.notValidBefore) }.max() ?? 0)
        validUntil = WallTime(seconds: chain.map { Int64($0.notValidAfter) }.min() ?? 0)
    }

    /// The fault of a certificate at the given time, in words that follow "a certificate that"; nil while it is valid.
    package func fault(at now: WallTime) -> String? {
        if now > validUntil { return "has run out (\(validUntil.rfc3339))" }
        if now < validFrom { return "is not valid yet (\(validFrom.rfc3339))" }
        return nil
    }
}
