import Hummingbird
import HummingbirdTLS
import NIOCore
import NIOSSL

/// A listener that asks for a client's certificate (RFC 8705), in addition to the plain listener.
///
/// The TLS handshake refuses, with an alert, a certificate that has expired or that the roots have not signed.
package struct MutualTLSConfiguration: Sendable {
    /// The port on the sandbox's address; 0 selects a free one.
    package var port: Int
    /// PEM files: the listener's certificate and key, and the roots of accepted client certificates.
    package var certificate: String
    package var key: String
    package var clientRoots: String

    package init(port: Int = 0, certificate: String, key: String, clientRoots: String) {
        self.port = port
        self.certificate = certificate
        self.key = key
        self.clientRoots = clientRoots
    }

    /// Returns the listener's TLS configuration.
    ///
    /// Client certificates are optional, because the server may also have clients that lack a certificate.
    func tls() throws -> TLSConfiguration {
        var tls = TLSConfiguration.makeServerConfiguration(
            certificateChain: try NIOSSLCertificate.fromPEMFile(certificate).map { .certificate($0) },
            privateKey: .privateKey(try NIOSSLPrivateKey(file: key, format: .pem)))
        tls.trustRoots = .file(clientRoots)
        tls.certificateVerification = .optionalVerification
        return tls
    }
}
