import Broker

/// Makes one provider's calls: the transport with that provider's limiter and address rule.
struct ProviderCaller: Sendable {
    let http: ProviderHTTP
    let limiter: CallLimiter
    let allowPrivate: Bool
    let total: Duration
    private let name: ProviderName
    private let clock: BrokerClock

    init(http: ProviderHTTP, settings: ProviderSettings, clock: BrokerClock) {
        self.clock = clock
        name = settings.name
        self.http = http
        limiter = CallLimiter(limits: settings.limits, clock: clock)
        allowPrivate = settings.allowPrivate
        total = settings.limits.total
    }

    /// The moment by which a call that begins now has ended by its own limit: for the calls of nobody's work, such as a
    /// shared document's.
    var ownLimit: Duration { clock.monotonic() + total }

    /// Makes one call, which has ended by a monotonic moment.
    ///
    /// Throws `notSent` or `lost`; every status is an answer.
    func send(_ request: ProviderRequest, by deadline: Duration) async throws(ProviderFailure) -> ProviderAnswer {
        let rest = deadline - clock.monotonic()
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
}
