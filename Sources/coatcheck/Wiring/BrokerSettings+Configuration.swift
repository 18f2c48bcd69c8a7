import Broker

extension BrokerSettings {
    /// Makes the domain's settings from the configuration file.
    init(_ limits: LimitSettings) {
        self.init()
        loginLimits = LoginLimits(pending: limits.pendingLogins, pendingPerToken: limits.pendingLoginsPerToken)
        sessionsPerSubjectAndClient = limits.sessionsPerSubjectAndClient
        sessionsPerShopAndClient = limits.sessionsPerShopAndClient
    }
}
