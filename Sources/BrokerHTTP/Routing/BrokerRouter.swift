package import Broker
package import BrokerRelay
import HTTPTypes

/// The public listener, with every route on one screen.
///
/// The backends' routes are included only if backends have no listener of their own (decision 15).
package enum BrokerRouter {
    /// The name of app link paths in logs and metrics, because the operator chooses the paths themselves.
    static let appLinks = "app link"

    static func routes(_ api: BrokerAPI) -> [Route] {
        [
            Route(.post, "/v1/logins", .json, handler: api.startLogin),
            Route(.post, "/v1/sessions", .json, handler: api.forwardCode),
            Route(.post, "/v1/registrations", .json, handler: api.finishRegistration),
            Route(.get, "/v1/session", handler: api.readSession),
            Route(.delete, "/v1/session", handler: api.logOut),
            Route(.post, "/v1/session/token", proof: api.requireNoChild, handler: api.handOutToken),
            Route(.post, "/v1/session/pass", proof: api.requireSession, handler: api.grantPass),
            Route(.put, "/v1/session/presence-key", proof: api.requireNoChild, handler: api.registerPresenceKey),
            Route(.post, "/v1/session/refresh", proof: api.requireNoChild, handler: api.refreshSession),
            Route(.post, "/v1/session/children", .json, proof: api.requireNoChild, handler: api.makeChild),
            Route(.post, "/v1/session/handovers", .json, proof: api.requireNoChild, handler: api.beginHandover),
            Route(
                .get, "/v1/session/events", .sameOriginAlways, handler: api.sessionEvents),
            Route(.get, "/v1/sessions", handler: api.listSessions),
            Route(.delete, "/v1/sessions", proof: api.requireNoChild, handler: api.endOtherSessions),
            Route(.delete, "/v1/sessions/{handle}", proof: api.requireNoChild, handler: api.endSession),
            Route(.get, "/v1/providers", handler: api.listProviders),

            Route(.get, "/v1/relay/{upstream}/{path}", [.relay, .sameOriginAlways], handler: api.relayCall),

            Route(.get, "/handover/{ticket}", .page, handler: api.showHandover),
            Route(.post, "/handover/{ticket}", .page, handler: api.spendHandover),

            Route(.get, "/callback/{provider}", handler: api.hostedCallback),
            Route(
                .post, "/callback/{provider}", [.anyOrigin, .form], proof: api.hasProvider,
                handler: api.hostedFormCallback),
            Route(
                .post, "/v1/backchannel-logout/{provider}", [.anyOrigin, .form], proof: api.hasProvider,
                handler: api.backchannelLogout),

            Route(.get, "/.well-known/apple-app-site-association", handler: api.readAppleAssociation),
            Route(.get, "/.well-known/assetlinks.json", handler: api.readAssetLinks),
            Route(.get, "/openapi.yaml", handler: api.readContract),
        ] + (api.configuration.backendListen == nil ? BackendRouter.routes(api) : [])
            + (api.configuration.appLinkPaths.isEmpty
                ? [] : [Route(.get, appLinks, .appLinks, handler: api.askToOpenApp)])
    }

    /// Returns the responder of the public listener.
    /// - `relay`: the caller shuts it down
    /// - `digest`: the vault's SHA-256
    /// - `load`: counts the work in progress
    /// - `log`: gets one record for each request
    /// - `traces`: if present, each request has a span
    package static func responder(
        useCases: BrokerUseCases, relay: Relay? = nil, configuration: HTTPConfiguration, clock: BrokerClock,
        digest: @escaping @Sendable ([UInt8]) -> Digest, load: ServerLoad = ServerLoad(),
        ledger: ChargeLedger? = nil, log: RequestLog, traces: TraceStarter? = nil
    ) -> BrokerResponder {
        let api = BrokerAPI(
            useCases: useCases, relay: relay, configuration: configuration, listener: .public,
            load: load, ledger: ledger, clock: clock, digest: digest)
        return BrokerResponder(
            routes: routes(api), rules: api.rules,
            errors: ProblemResponder(
                cookies: api.cookies, now: clock.now, nonce: useCases.proofNonce),
            limits: configuration.limits, clock: clock, load: load, log: log, traces: traces,
            appLinkPaths: configuration.appLinkPaths)
    }
}
