import Synchronization

/// The certificate that a client shows at present.
///
/// If the certificate's files change, the new certificate is used without a restart.
package final class ClientIdentity: Sendable {
    /// The files of the certificate and its key.
    package struct Files: Sendable, Hashable {
        package let certificate: String
        package let key: String

        package init(certificate: String, key: String) {
            self.certificate = certificate
            self.key = key
        }
    }

    package let files: Files
    /// The path of the setting that names the certificate's file.
    package let setting: String
    /// Guards the present certificate.
    private let state: Mutex<ClientCertificate>

    package init(_ certificate: ClientCertificate, files: Files, setting: String = "") {
        self.files = files
        self.setting = setting
        state = Mutex(certificate)
    }

    /// The certificate for connections that begin now.
    package var current: ClientCertificate { state.withLock { $0 } }

    /// Shows the given certificate from now on; returns whether it differs from the previous certificate.
    package func renew(_ certificate: ClientCertificate) -> Bool {
        state.withLock { current in
            guard certificate.id != current.id else { return false }
            current = certificate
            return true
        }
    }
}
