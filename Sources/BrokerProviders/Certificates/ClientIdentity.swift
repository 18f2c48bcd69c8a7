import Broker
import Synchronization

/// The certificate that a client shows now: exchanged while the process runs, when its files have another.
package final class ClientIdentity: Sendable {
    /// The files that it comes from.
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
    /// Guards the certificate that is shown.
    private let state: Mutex<ClientCertificate>

    package init(_ certificate: ClientCertificate, files: Files, setting: String = "") {
        self.files = files
        self.setting = setting
        state = Mutex(certificate)
    }

    /// The certificate for connections that begin now.
    package var current: ClientCertificate { state.withLock { $0 } }

    /// Shows another from now on; returns whether it is another.
    package func renew(_ certificate: ClientCertificate) -> Bool {
        state.withLock { current in
            guard certificate.id != current.id else { return false }
            current = certificate
            return true
        }
    }
}

/// `tls`: how connections are made that a client's calls go on.
package struct ConnectionSettings: Sendable {
    /// `certificate` and `key`: what the client shows; nil for nothing.
    package var identity: ClientIdentity?
    /// `ca_file`: trust roots beside the system's and `outbound.ca_file`.
    package var trust: TrustRoots?

    package init(identity: ClientIdentity? = nil, trust: TrustRoots? = nil) {
        self.identity = identity
        self.trust = trust
    }
}
