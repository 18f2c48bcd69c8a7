import Broker

/// Makes one provider's calls: the transport with that provider's limiter and address rule.
struct ProviderCaller: Sendable {
    let http: ProviderHTTP
    let limiter: CallLimiter
    let allowPrivate: Bool
    let total: Duration
    private let clock: BrokerClock

    /// The monotonic moment by which the calls of the work at hand have ended.
    @TaskLocal private static var deadline: Duration?

    init(http: ProviderHTTP, settings: ProviderSettings, clock: BrokerClock) {
        self.clock = clock
        self.http = http
        limiter = CallLimiter(limits: settings.limits, clock: clock)
        allowPrivate = settings.allowPrivate
        total = settings.limits.total
    }

    /// Makes one call.
    ///
    /// Throws `notSent` or `lost`; every status is an answer.
    func send(_ request: ProviderRequest) async throws(ProviderFailure) -> ProviderAnswer {
        let rest = Self.deadline.map { $0 - clock.monotonic() } ?? total
        guard rest > .zero else { throw .notSent(detail: "no time is left for it") }
        return try await http.send(request, limiter: limiter, internalAddresses: allowPrivate, total: min(total, rest))
    }

    /// Does `work`, all of whose calls end by a deadline.
    static func within<Value: Sendable>(
        _ deadline: Duration?, _ work: () async throws(ProviderFailure) -> Value
    ) async throws(ProviderFailure) -> Value {
        let result: Result<Value, ProviderFailure> = await $deadline.withValue(deadline) {
            do throws(ProviderFailure) { return .success(try await work()) } catch { return .failure(error) }
        }
        return try result.get()
    }
}
