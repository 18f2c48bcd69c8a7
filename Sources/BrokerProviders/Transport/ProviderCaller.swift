import Broker

/// Makes one provider's calls: the transport with that provider's gate, limits and address rule.
struct ProviderCaller: Sendable {
    let http: ProviderHTTP
    let gate: CallGate
    let allowPrivate: Bool
    let total: Duration

    init(http: ProviderHTTP, settings: ProviderSettings, clock: BrokerClock) {
        self.http = http
        gate = CallGate(limits: settings.limits, clock: clock)
        allowPrivate = settings.allowPrivate
        total = settings.limits.total
    }

    /// Makes one call.
    ///
    /// Throws `notSent` or `lost`; every status is an answer.
    func send(_ request: ProviderRequest) async throws(ProviderFailure) -> ProviderAnswer {
        try await http.send(request, gate: gate, internalAddresses: allowPrivate, total: total)
    }
}
