import FoundationEssentials
import Hummingbird
import HummingbirdTLS
import NIOCore
import NIOSSL

/// A listener beside the plain one that asks for a client's certificate (RFC 8705), and takes none that its roots have not
/// signed or that has run out: the refusal is TLS's own alert.
package struct MutualTLSConfiguration: Sendable {
    /// The port on the sandbox's address; 0 takes a free one.
    package var port: Int
    /// PEM files: what the listener shows, and whose certificates it takes.
    package var certificate: String
    package var key: String
    package var clientRoots: String

    package init(port: Int = 0, certificate: String, key: String, clientRoots: String) {
        self.port = port
        self.certificate = certificate
        self.key = key
        self.clientRoots = clientRoots
    }

    /// Returns the listener's TLS; a client may come without a certificate, as it does to a server that has other clients too.
    func tls() throws -> TLSConfiguration {
        var tls = TLSConfiguration.makeServerConfiguration(
            certificateChain: try NIOSSLCertificate.fromPEMFile(certificate).map { .certificate($0) },
            privateKey: .privateKey(try NIOSSLPrivateKey(file: key, format: .pem)))
        tls.trustRoots = .file(clientRoots)
        tls.certificateVerification = .optionalVerification
        return tls
    }
}

/// The certificate that a connection showed.
struct ShownCertificate: Sendable {
    /// `x5t#S256`.
    let thumbprint: String
    /// Its DNS names.
    let names: [String]

    /// Reads a connection's; nil where it showed none, or knows no TLS.
    init?(of channel: any Channel) async {
        guard let found = try? await channel.nioSSL_peerCertificate().get(), let encoded = try? found.toDERBytes()
        else {
            return nil
        }
        thumbprint = Digest256.base64url(of: encoded)
        names = found._subjectAlternativeNames().compactMap { name in
            name.nameType == .dnsName ? String(decoding: name.contents, as: UTF8.self) : nil
        }
    }
}
