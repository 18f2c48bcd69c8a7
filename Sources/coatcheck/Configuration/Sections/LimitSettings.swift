/// How much one caller may ask for (`limits`).
struct LimitSettings: Sendable {
    let loginsPerMinute: Int
    let wrongTokensPerMinute: Int
    let pendingLogins: Int
    let pendingLoginsPerToken: Int
    let sessionsPerSubjectAndClient: Int
    let sessionsPerShopAndClient: Int
    /// The largest request body of our own endpoints, in bytes.
    let body: Int
    /// The largest request body that the relay passes on, in bytes.
    let relayBody: Int
    /// The lowest average rate of a relayed body that the app is waited for, in bytes a second.
    let relayMinimumRate: Int
    /// How long a relayed upload may take in all.
    let relayUploadDeadline: Duration
    /// Open connections of one client address.
    let connectionsPerAddress: Int

    init(_ section: ConfigSection) {
        loginsPerMinute = section.integer("logins_per_minute", default: 60, in: 1...1_000_000)
        wrongTokensPerMinute = section.integer("wrong_tokens_per_minute", default: 60, in: 1...1_000_000)
        pendingLogins = section.integer("pending_logins", default: 100_000, in: 1...10_000_000)
        pendingLoginsPerToken = section.integer("pending_logins_per_token", default: 8, in: 1...32)
        sessionsPerSubjectAndClient = section.integer("sessions_per_subject_and_client", default: 50, in: 1...10_000)
        sessionsPerShopAndClient = section.integer(
            "sessions_per_shop_and_client", default: 1000, in: 1...100_000)
        body = section.size("body", default: 64 << 10, in: 4096...(1 << 20))
        relayBody = section.size("relay_body", default: 1 << 30, in: 4096...(1 << 40))
        relayMinimumRate = section.size("relay_minimum_rate", default: 1 << 10, in: 1...(1 << 20))
        relayUploadDeadline = section.duration(
            "relay_upload_deadline", default: .seconds(3600), in: .seconds(60) ... .seconds(86_400))
        connectionsPerAddress = section.integer("connections_per_address", default: 512, in: 1...1_000_000)
        if pendingLoginsPerToken > pendingLogins {
            section.report("pending_logins_per_token", "is more than `pending_logins`")
        }
    }
}
