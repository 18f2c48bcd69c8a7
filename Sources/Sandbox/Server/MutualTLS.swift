import Hummingbird
import HummingbirdTLS
import NIOCore

/// The certificate that a connection showed.
struct ShownCertificate: Sendable {
    /// The thumbprint `x5t#S256`.
    let thumbprint: String
    /// The DNS names in the certificate.
    let names: [String]

    /// Reads the client's certificate from a connection; nil if the connection is plain HTTP or the client has shown none.
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
