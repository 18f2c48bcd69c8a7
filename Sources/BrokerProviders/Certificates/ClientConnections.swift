import Broker
import Synchronization

/// The connections for one client's calls.
///
/// Each origin and certificate has its own pool, so a call is never sent on a connection that showed another certificate.
final class ClientConnections: Sendable {
    /// Connections, with the certificate that is shown on them.
    struct Shown: Sendable {
        let clients: HTTPClients
        let certificate: ClientCertificate?
        let trust: TrustRoots?
    }

    private struct State {
        var current: Shown?
        /// The connections that showed the previous certificate.
        ///
        /// A call still needs these connections if its token is bound to the previous certificate.
        var last: Shown?
    }

    private let settings: ConnectionSettings
    private let http: ProviderHTTP
    /// Guards the connections of the present and the previous certificate.
    private let state = Mutex(State())

    /// Creates the connections; nil if the client uses the connections that all providers share.
    init?(_ settings: ConnectionSettings, _ http: ProviderHTTP) {
        guard settings.identity != nil || settings.trust != nil else { return nil }
        self.settings = settings
        self.http = http
    }

    /// Returns the connections for the present certificate, or for the previous certificate if that has the given thumbprint.
    func now(for thumbprint: String? = nil) -> Shown {
        let certificate = settings.identity?.current
        return state.withLock { state in
            if let last = state.last, let thumbprint, last.certificate?.thumbprint == thumbprint,
                certificate?.thumbprint != thumbprint
            {
                return last
            }
            if let current = state.current, current.certificate?.id == certificate?.id { return current }
            let made = Shown(
                clients: http.clients(showing: certificate, trusting: settings.trust), certificate: certificate,
                trust: settings.trust)
            state.last = state.current
            state.current = made
            return made
        }
    }

    /// The thumbprint of the certificate that is shown now.
    var thumbprint: String? { settings.identity?.current.thumbprint }
}
