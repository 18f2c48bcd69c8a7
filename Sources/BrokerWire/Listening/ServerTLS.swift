import NIOCore
import NIOSSL

/// A certificate and its key for TLS 1.2 or newer and HTTP/1.1; client certificates are not requested.
package struct ServerTLS: Sendable {
    /// The fault of a certificate, in a sentence for the operator.
    ///
    /// The caller adds the file's name.
    package enum Failure: Error, Sendable, Equatable, CustomStringConvertible {
        case noCertificate
        case noKey
        case doesNotFit
        /// The certificate has expired; the value is the last second of its validity, as Unix time.
        case runOut(Int64)
        /// The certificate is not valid yet; the value is the first second of its validity, as Unix time.
        case notYet(Int64)

        package var description: String {
            switch self {
            case .noCertificate: "holds no certificate in PEM"
            case .noKey: "holds no private key in PEM that is not encrypted"
            case .doesNotFit: "is not the key of the first certificate"
            case .runOut: "holds a certificate that has run out"
            case .notYet: "holds a certificate that is not valid yet"
            }
        }
    }

    /// The longest time for a handshake.
    static let patience = TimeAmount.seconds(10)

    /// The expiry of the certificate in the chain that expires first, as Unix time.
    package let expiresAt: Int64
    /// The certificate's DNS names in lower case, without IP addresses.
    package let names: [String]
    let context: NIOSSLContext

    /// Reads a certificate with its intermediates and its key, in PEM; throws the reason if they are unusable at `now`.
    package init(certificate: [UInt8], key: [UInt8], now: Int64) throws(Failure) {
        guard let chain = try? NIOSSLCertificate.fromPEMBytes(certificate), let leaf = chain.first else {
            throw .noCertificate
        }
        guard let key = try? NIOSSLPrivateKey(bytes: key, format: .pem) else { throw .noKey }
        let end = chain.map { Int64($0.notValidAfter) }.min() ?? 0
        let begin = chain.map { Int64($0.notValidBefore) }.max() ?? 0
        guard now <= end else { throw .runOut(end) }
        guard now >= begin else { throw .notYet(begin) }
        var configuration = TLSConfiguration.makeServerConfiguration(
            certificateChain: chain.map { .certificate($0) }, privateKey: .privateKey(key))
        configuration.minimumTLSVersion = .tlsv12
        // In TLS 1.2, only suites with forward secrecy and authenticated encryption (RFC 9325 section 4.2).
        configuration.cipherSuites = "ECDHE+AESGCM:ECDHE+CHACHA20"
        configuration.applicationProtocols = ["http/1.1"]
        configuration.renegotiationSupport = .none
        // The longest time that the broker waits for a peer's close_notify.
        configuration.shutdownTimeout = .seconds(1)
        guard let context = try? NIOSSLContext(configuration: configuration) else { throw .doesNotFit }
        self.context = context
        expiresAt = end
        names = leaf._subjectAlternativeNames().compactMap { name -> String? in
            guard name.nameType == .dnsName else { return nil }
            return String(decoding: Array(name.contents), as: UTF8.self).lowercased()
        }
    }

    /// Returns whether the certificate is for a host name, directly or by a wildcard for its first label (`*.`).
    package func isFor(_ host: String) -> Bool {
        let host = host.lowercased()
        return names.contains { name in
            guard name.hasPrefix("*.") else { return name == host }
            return host.drop { $0 != "." } == name.dropFirst() && !host.hasPrefix(".")
        }
    }
}
