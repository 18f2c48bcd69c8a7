import Broker
import Synchronization

/// The connections of one client's calls: a pool for each origin and certificate, so that no call ever goes out on a
/// connection that another's certificate was shown on.
final class ClientConnections: Sendable {
    /// Connections with what is shown on them.
    struct Shown: Sendable {
        let clients: HTTPClients
        let certificate: ClientCertificate?
        let trust: TrustRoots?
    }

    private struct State {
        var current: Shown?
        /// The connections of the certificate before: a call whose token it was shown for may still need it.
        var last: Shown?
    }

    private let settings: ConnectionSettings
    private let http: ProviderHTTP
    /// Guards the connections.
    private let state = Mutex(State())

    /// Creates them; nil where the provider's calls are made as everybody's.
    init?(_ settings: ConnectionSettings, _ http: ProviderHTTP) {
        guard settings.identity != nil || settings.trust != nil else { return nil }
        self.settings = settings
        self.http = http
    }

    /// Returns those of the certificate that is shown now, or of the one before where that has the thumbprint.
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
