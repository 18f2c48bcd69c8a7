import Broker
import BrokerHTTP
import BrokerProviders
import BrokerWire

/// The limits on a single caller (`limits`), as settings of the modules `BrokerHTTP` and `Broker`.
struct LimitSettings: Sendable {
    private(set) var http: HTTPLimits
    let broker: BrokerSettings

    init(_ section: ConfigSection) {
        var http = HTTPLimits()
        var broker = BrokerSettings()
        func count(_ key: String, _ value: inout Int, in range: ClosedRange<Int>) {
            value = section.integer(key, default: value, in: range)
        }
        func size(_ key: String, _ value: inout Int, in range: ClosedRange<Int>) {
            value = section.size(key, default: value, in: range)
        }
        count("logins_per_minute", &http.charges.loginsPerMinute, in: 1...1_000_000)
        count("wrong_tokens_per_minute", &http.charges.wrongTokensPerMinute, in: 1...1_000_000)
        count("pending_logins", &http.charges.pending, in: 1...10_000_000)
        broker.loginLimits.pending = http.charges.pending
        count("pending_logins_per_token", &broker.loginLimits.pendingPerToken, in: 1...32)
        count("sessions_per_subject_and_client", &broker.sessionsPerSubjectAndClient, in: 1...10_000)
        count("sessions_per_shop_and_client", &broker.sessionsPerShopAndClient, in: 1...100_000)
        size("body", &http.body, in: 4096...(1 << 20))
        size("relay_body", &http.relayBody, in: 4096...(1 << 40))
        size("relay_minimum_rate", &http.relayMinimumRate, in: 1...(1 << 20))
        http.connection.minimumRate = http.relayMinimumRate
        http.relayUploadDeadline = section.duration(
            "relay_upload_deadline", default: http.relayUploadDeadline, in: .seconds(60) ... .seconds(86_400))
        broker.forcedRefreshPause = section.duration(
            "forced_refresh_pause", default: broker.forcedRefreshPause, in: .zero ... .seconds(3600))
        count("connections_per_address", &http.connectionsPerAddress, in: 1...1_000_000)
        if broker.loginLimits.pendingPerToken > broker.loginLimits.pending {
            section.report("pending_logins_per_token", "is more than `pending_logins`")
        }
        self.http = http
        self.broker = broker
    }
}

extension LimitSettings {
    /// Returns the limits with the largest `per_minute` of the clients' `import_tokens` and `move_in`.
    ///
    /// Clients with a smaller value get the same limit, because the broker counts by address only.
    func joined(_ providers: [ProviderSection]) -> LimitSettings {
        var joined = self
        let profiles = providers.flatMap(\.clients).map(\.settings.profile)
        let paces = profiles.flatMap { [$0.importsPerMinute, $0.moveIn?.perMinute] }.compactMap { $0 }
        joined.http.charges.importsPerMinute = paces.max() ?? 0
        return joined
    }
}
