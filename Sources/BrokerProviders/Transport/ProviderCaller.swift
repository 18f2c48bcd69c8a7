import Broker

/// Makes one provider's calls: the transport with that provider's limiter and address rule.
struct ProviderCaller: Sendable {
    let http: ProviderHTTP
    let limiter: CallLimiter
    let allowPrivate: Bool
    let total: Duration

    init(http: ProviderHTTP, settings: ProviderSettings, clock: BrokerClock) {
        self.http = http
        limiter = CallLimiter(limits: settings.limits, clock: clock)
        allowPrivate = settings.allowPrivate
        total = settings.limits.total
    }

    /// Makes one call.
    ///
    /// Throws `notSent` or `lost`; every status is an answer.
    func send(_ request: ProviderRequest) async throws(ProviderFailure) -> ProviderAnswer {
        try await http.send(request, limiter: limiter, internalAddresses: allowPrivate, total: total)
    }
}
