package import Broker
import HTTPTypes

/// The backends' own listener, which serves only the routes for backends.
package enum BackendRouter {
    static func routes(_ api: BrokerAPI) -> [Route] {
        [
            Route(.get, "/v1/forward-auth", handler: api.forwardAuth),
            Route(
                .post, "/v1/introspect", [.anyOrigin, .oauthErrors, .form],
                proof: api.isBackendOrWillBe(for: .introspect),
                handler: api.introspect),
            Route(
                .post, "/v1/handovers/redeem", [.anyOrigin, .json], proof: api.isBackend(for: .handover),
                handler: api.redeemHandover),
            Route(
                .post, "/v1/token", [.anyOrigin, .oauthErrors, .form], proof: api.isBackendOrWillBe(for: .token),
                handler: api.exchangeToken),
        ]
    }

    /// Returns the responder of the backends' own listener; the parameters are those of `BrokerRouter.responder`.
    package static func responder(
        useCases: BrokerUseCases, configuration: HTTPConfiguration, clock: BrokerClock,
        digest: @escaping @Sendable ([UInt8]) -> Digest, load: ServerLoad = ServerLoad(),
        ledger: ChargeLedger? = nil, log: RequestLog, traces: TraceStarter? = nil
    ) -> BrokerResponder {
        let api = BrokerAPI(
            useCases: useCases, relay: nil, configuration: configuration, listener: .backend,
            load: load, ledger: ledger, clock: clock, digest: digest)
        return BrokerResponder(
            routes: routes(api), rules: api.rules,
            errors: ProblemResponder(
                cookies: api.cookies, now: clock.now, nonce: useCases.proofNonce),
            limits: configuration.limits, clock: clock, load: load, log: log, traces: traces)
    }
}
