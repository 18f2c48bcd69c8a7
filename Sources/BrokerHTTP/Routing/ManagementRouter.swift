package import Broker
import HTTPTypes
import NIOCore

/// The management listener, for health, metrics and administration.
///
/// Session cookies are ignored here (SEC-96).
package enum ManagementRouter {
    static func routes(_ api: ManagementAPI) -> [Route] {
        [
            Route(.get, "/livez", handler: api.live),
            Route(.get, "/readyz", handler: api.ready),
            Route(.get, "/metrics", handler: api.metrics),

            Route(.get, "/admin/v1/sessions", handler: api.listSessions),
            Route(.delete, "/admin/v1/sessions", proof: api.isAdmin(for: .end), handler: api.endSessions),
            Route(.delete, "/admin/v1/sessions/{handle}", proof: api.isAdmin(for: .end), handler: api.endSession),
            Route(
                .delete, "/admin/v1/subjects/{provider}/{subject}/sessions", proof: api.isAdmin(for: .end),
                handler: api.endSubject),
            Route(.get, "/admin/v1/providers", handler: api.listProviders),

            Route(.get, "/admin/v1/keys", handler: api.listKeys),
            Route(.get, "/admin/v1/keys/reseal", handler: api.resealProgress),
            Route(.post, "/admin/v1/keys/reseal", proof: api.isAdmin(for: .maintain), handler: api.reseal),
            Route(.post, "/admin/v1/backups", .json, proof: api.isAdmin(for: .maintain), handler: api.backUp),

            Route(.post, "/admin/v1/exports", .json, proof: api.isAdmin(for: .export), handler: api.exportSessions),
            Route(
                .post, "/admin/v1/exports/end", .json, proof: api.isAdmin(for: .export), handler: api.endExported),

            Route(
                .post, "/admin/v1/first-imports", .json, proof: api.isAdmin(for: .maintain), handler: api.firstImport),

            Route(
                .post, "/admin/v1/config/diff", [.largeBody, .json], proof: api.isAdmin(for: .configure),
                handler: api.compareConfiguration),
        ]
    }

    /// Returns the responder of the management listener.
    package static func responder(
        health: ManagementHealth, sessions: AdminSessions, store: ManagementStore? = nil,
        comparison: ManagementComparison? = nil, configuration: HTTPConfiguration, clock: BrokerClock,
        digest: @escaping @Sendable ([UInt8]) -> Digest, wrongTokens: TokenBuckets? = nil, log: RequestLog
    ) -> BrokerResponder {
        let name = PublicName(configuration)
        let cookies = CookieWriter(configuration, isSecure: name.isSecure, now: clock.now)
        let api = ManagementAPI(
            health: health, sessions: sessions, store: store, comparison: comparison, configuration: configuration,
            clock: clock, digest: digest, wrongTokens: wrongTokens)
        return BrokerResponder(
            routes: routes(api),
            rules: ListenerRules(configuration, name: name, cookies: cookies, kind: .management),
            errors: ProblemResponder(cookies: cookies, now: clock.now), limits: configuration.limits, clock: clock,
            load: ServerLoad(), log: log)
    }
}
