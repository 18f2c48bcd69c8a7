package import Broker
import Crypto
package import NIOSSL

/// Further trust roots (`tls: {ca_file}`).
package struct TrustRoots: Sendable {
    package let certificates: [NIOSSLCertificate]
    /// The digest that identifies the set of trust roots.
    package let id: Broker.Digest

    /// Reads a PEM text; nil if it contains no certificate.
    package init?(pem: [UInt8]) {
        guard let certificates = try? NIOSSLCertificate.fromPEMBytes(pem), !certificates.isEmpty,
            let encoded = try? certificates.map({ try $0.toDERBytes() }),
            let id = Broker.Digest(Array(SHA256.hash(data: encoded.flatMap(\.self))))
        else { return nil }
        self.certificates = certificates
        self.id = id
    }
}
