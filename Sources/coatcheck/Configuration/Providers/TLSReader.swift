import Broker
import BrokerProviders

/// Reads the TLS settings of outgoing connections: the certificate and the trust roots.
///
/// The section is `tls: {certificate, key, ca_file}`, on a provider, a client or an upstream.
enum TLSReader {
    /// The time before a certificate's expiry that causes a warning.
    private static let lastDays = Duration.seconds(14 * 86_400)

    /// Reads the settings of a section, which override those in `settings`.
    ///
    /// `certificate: {file, key}` is another spelling of `tls: {certificate, key}`.
    static func read(_ section: ConfigSection, into settings: inout ConnectionSettings) {
        let tls = section.optionalSection("tls")
        let other = section.optionalSection("certificate")
        if other != nil, tls?.has("certificate") == true || tls?.has("key") == true {
            section.report("certificate", "stands beside `tls: {certificate, key}`: write one of them")
        }
        if let other { settings.identity = identity(other, "file", "key") ?? settings.identity }
        if let tls { read(tls: tls, into: &settings) }
    }

    /// Reads a section `tls`.
    static func read(tls section: ConfigSection, into settings: inout ConnectionSettings) {
        if section.has("certificate") || section.has("key") || section.context.isCataloguing {
            settings.identity = identity(section, "certificate", "key") ?? settings.identity
        }
        settings.trust = trust(section) ?? settings.trust
    }

    /// Reads the trust roots of a section (`ca_file`).
    static func trust(_ section: ConfigSection) -> TrustRoots? {
        guard let file = section.readableFile("ca_file") else { return nil }
        let trust = TrustRoots(pem: file.bytes)
        if trust == nil { section.report("ca_file", "names a file that holds no certificate in PEM") }
        return trust
    }

    /// Returns whether a section names a certificate, valid or not.
    static func names(_ section: ConfigSection) -> Bool {
        if section.has("certificate") { return true }
        guard let tls = section.optionalSection("tls") else { return false }
        // Mark the keys as read, because the context reports all keys that were not read as unknown.
        for key in ["certificate", "key", "ca_file"] { _ = tls.node(key) }
        return tls.has("certificate")
    }

    private static func identity(
        _ section: ConfigSection, _ certificateName: String, _ keyName: String
    ) -> ClientIdentity? {
        section.require(certificateName)
        section.require(keyName)
        let certificateFile = section.readableFile(certificateName)
        let keyFile = section.text(keyName, limit: 4096)
        guard let key = section.privateKeyFile(keyName), let certificateFile, let keyFile else { return nil }
        let now = section.context.sources.now()
        do throws(ClientCertificate.Failure) {
            let certificate = try ClientCertificate(certificate: certificateFile.bytes, key: key.bytes())
            // Only warn here, because one invalid certificate must not prevent the broker's start. The command `check` fails
            // for such a certificate.
            if let fault = certificate.fault(at: now) {
                section.warn(certificateName, "names a file with a certificate that \(fault)")
            } else if certificate.validUntil.since(now) < lastDays {
                section.warn(certificateName, "runs out on \(certificate.validUntil.rfc3339)")
            }
            return ClientIdentity(
                certificate,
                files: ClientIdentity.Files(
                    certificate: certificateFile.path, key: section.context.sources.resolve(keyFile)),
                setting: section.child(certificateName))
        } catch {
            switch error {
            case .noCertificate: section.report(certificateName, "names a file that \(error)")
            case .noKey: section.report(keyName, "names a file that \(error)")
            case .doesNotFit: section.report(keyName, "\(error)")
            }
            return nil
        }
    }
}
