package import Broker
package import BrokerRelay
import HTTPTypes

/// The public listener: every route on one screen.
///
/// What backends ask is served here only where they have no listener of their own (decision 15).
package enum BrokerRouter {
    static func routes(_ api: BrokerAPI) -> [Route] {
        [
            Route(.post, "/v1/logins", handler: api.startLogin),
            Route(.post, "/v1/sessions", handler: api.forwardCode),
            Route(.post, "/v1/registrations", handler: api.finishRegistration),
            Route(.get, "/v1/session", handler: api.readSession),
            Route(.delete, "/v1/session", handler: api.logOut),
            Route(.post, "/v1/session/token", handler: api.handOutToken),
            Route(.post, "/v1/session/refresh", handler: api.refreshSession),
            Route(.get, "/v1/session/events", .sameOriginAlways, handler: api.sessionEvents),
            Route(.get, "/v1/sessions", handler: api.listSessions),
            Route(.delete, "/v1/sessions", handler: api.endOtherSessions),
            Route(.delete, "/v1/sessions/{handle}", handler: api.endSession),
            Route(.get, "/v1/providers", handler: api.listProviders),

            Route(.get, "/v1/relay/{upstream}/{path}", [.relay, .sameOriginAlways], handler: api.relayCall),

            Route(.get, "/callback/{provider}", handler: api.hostedCallback),
            Route(.post, "/callback/{provider}", .anyOrigin, handler: api.hostedFormCallback),
            Route(.post, "/v1/backchannel-logout/{provider}", .anyOrigin, handler: api.backchannelLogout),

            Route(.get, "/.well-known/apple-app-site-association", handler: api.readAppleAssociation),
            Route(.get, "/.well-known/assetlinks.json", handler: api.readAssetLinks),
            Route(.get, "/openapi.yaml", handler: api.readContract),
        ] + (api.configuration.backendListen == nil ? BackendRouter.routes(api) : [])
    }

    /// Returns what serves the public listener.
    ///
    /// `relay` is shut down by the caller, `digest` is the vault's SHA-256, `load` counts what is under way, and `log`
    /// gets one record for each request; with `traces` each has a span.
    package static func responder(
        useCases: BrokerUseCases, relay: Relay? = nil, configuration: HTTPConfiguration, clock: BrokerClock,
        digest: @escaping @Sendable ([UInt8]) -> Digest, load: ServerLoad = ServerLoad(),
        ledger: ChargeLedger? = nil, log: RequestLog, traces: TraceStarter? = nil
    ) -> BrokerResponder {
        let api = BrokerAPI(
            useCases: useCases, relay: relay, configuration: configuration, listener: .public,
            ledger: ledger, clock: clock,
            digest: digest)
        return BrokerResponder(
            routes: routes(api), rules: api.rules, errors: ProblemResponder(cookies: api.cookies, now: clock.now),
            limits: configuration.limits, clock: clock, load: load, log: log, traces: traces)
    }
}
