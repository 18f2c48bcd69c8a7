import Broker

/// Makes the calls to one provider, with the provider's limits and address policy.
struct ProviderCaller: Sendable {
    let http: ProviderHTTP
    let limiter: CallLimiter
    let allowPrivate: Bool
    let total: Duration
    /// The connections for these calls, with the client certificate that they show, if any.
    ///
    /// Nil if the calls use the connections that all providers share, which show no client certificate.
    var shown: ClientConnections.Shown?
    /// Called with the TLS alert if a server refuses the client certificate of `shown`.
    var refused: @Sendable (String) -> Void = { _ in }
    private let name: ProviderName
    private let clock: BrokerClock

    /// Creates the caller; `turned` is called when the breaker of these calls opens or closes.
    init(
        http: ProviderHTTP, settings: ProviderSettings, clock: BrokerClock,
        turned: @escaping @Sendable (_ isOpen: Bool) -> Void = { _ in }
    ) {
        self.clock = clock
        name = settings.name
        self.http = http
        limiter = CallLimiter(limits: settings.limits, clock: clock, turned: turned)
        allowPrivate = settings.allowPrivate
        total = settings.limits.total
    }

    /// The latest end of a call that begins now, according to the provider's own limit.
    ///
    /// Background work such as fetching a shared document uses this limit.
    var ownLimit: Duration { clock.monotonic() + total }

    /// Returns a copy of this caller, which calls `refused` if a server refuses the client certificate.
    func refusing(_ refused: @escaping @Sendable (String) -> Void) -> ProviderCaller {
        var caller = self
        caller.refused = refused
        return caller
    }

    /// Makes one call that ends before a monotonic time.
    ///
    /// Throws `notSent` or `lost`; returns an answer with any status.
    func send(_ request: ProviderRequest, by deadline: Duration) async throws(ProviderFailure) -> ProviderAnswer {
        let rest = deadline - clock.monotonic()
        guard rest > .zero else { throw .notSent(detail: "no time is left for it") }
        guard let span = span(of: request) else {
            return try await http.send(
                request, over: shown, limiter: limiter, internalAddresses: allowPrivate, total: min(total, rest),
                refused: refused)
        }
        var request = request
        // The trace context is the broker's own, because a value that a stranger chose must not reach a third party.
        request.headers.append((name: "traceparent", value: span.ownTraceparent))
        do throws(ProviderFailure) {
            let answer = try await http.send(
                request, over: shown, limiter: limiter, internalAddresses: allowPrivate, total: min(total, rest),
                refused: refused)
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
