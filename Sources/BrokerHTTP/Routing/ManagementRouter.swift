package import Broker
import HTTPTypes
import Hummingbird
import NIOCore

/// Is the management listener: health, metrics and administration. It never looks at a session cookie (SEC-96).
package enum ManagementRouter {
    static func routes(_ api: ManagementAPI) -> [Route] {
        [
            Route(.get, "/livez", handler: api.live),
            Route(.get, "/readyz", handler: api.ready),
            Route(.get, "/metrics", handler: api.metrics),
        ]
    }

    /// Returns what serves the management listener.
    package static func responder(
        health: ManagementHealth, configuration: HTTPConfiguration, clock: BrokerClock,
        digest: @escaping @Sendable ([UInt8]) -> Digest, log: RequestLog
    ) -> BrokerResponder {
        let name = PublicName(configuration)
        let cookies = CookieWriter(configuration, isSecure: name.isSecure)
        let api = ManagementAPI(health: health, configuration: configuration, clock: clock, digest: digest)
        return BrokerResponder(
            routes: routes(api),
            rules: ListenerRules(configuration, name: name, cookies: cookies, isPublic: false),
            errors: ErrorDoor(cookies: cookies, now: clock.now), limits: configuration.limits, clock: clock, log: log)
    }
}
