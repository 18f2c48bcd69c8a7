import Broker

/// Makes one provider's calls: the transport with that provider's limiter and address rule.
struct ProviderCaller: Sendable {
    let http: ProviderHTTP
    let limiter: CallLimiter
    let allowPrivate: Bool
    let total: Duration
    private let name: ProviderName
    private let clock: BrokerClock

    /// The monotonic moment by which the calls of the work at hand have ended.
    @TaskLocal private static var deadline: Duration?

    init(http: ProviderHTTP, settings: ProviderSettings, clock: BrokerClock) {
        self.clock = clock
        name = settings.name
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
        guard let span = span(of: request) else {
            return try await http.send(
                request, limiter: limiter, internalAddresses: allowPrivate, total: min(total, rest))
        }
        var request = request
        // Never the caller's own: what a stranger has chosen goes to no third party.
        request.headers.append((name: "traceparent", value: span.ownTraceparent))
        do throws(ProviderFailure) {
            let answer = try await http.send(
                request, limiter: limiter, internalAddresses: allowPrivate, total: min(total, rest))
            span.set("http.response.status_code", answer.status)
            span.end(answer.status >= 500 ? String(answer.status) : nil)
            return answer
        } catch {
            span.end(error.shortDescription)
            throw error
        }
    }

    private func span(of request: ProviderRequest) -> (any TraceSpan)? {
        let text = { "\(request.method) \(name)" }
        let span =
            RequestScope.current.map { $0.span?.child(text(), .client) } ?? http.traces?.begin(text(), .client, nil)
        span?.set("http.request.method", request.method)
        span?.set("coatcheck.provider", name.text)
        return span
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
