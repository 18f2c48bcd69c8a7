import Broker
import Synchronization

/// Logs that a provider's server refused a client's certificate: the first refusal at once, later ones once a minute.
final class CertificateRefusals: Sendable {
    private static let pause = Duration.seconds(60)

    private let log: ProcessLog
    private let monotonic: @Sendable () -> Duration
    /// Guards the time of each client's last line.
    private let told = Mutex<[String: Duration]>([:])

    init(log: ProcessLog, monotonic: @escaping @Sendable () -> Duration) {
        self.log = log
        self.monotonic = monotonic
    }

    /// Logs a refusal, unless one was logged for the client within the last minute.
    func note(_ provider: ProviderName, _ client: ClientName, _ detail: String) {
        let (name, now) = ("\(provider) \(client)", monotonic())
        let isDue = told.withLock { told in
            guard told[name].map({ now - $0 >= Self.pause }) ?? true else { return false }
            told[name] = now
            return true
        }
        guard isDue else { return }
        log.write(
            .error, "client certificate refused",
            [
                ("provider", provider.text), ("client", client.text),
                (
                    "detail",
                    "\(detail); until the provider accepts the certificate, this client's sign-ins and refreshes get 503; "
                        + "sessions are kept"
                ),
            ])
    }
}
