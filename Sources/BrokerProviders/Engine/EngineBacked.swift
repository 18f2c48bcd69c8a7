package import Broker

/// A provider that uses the calls of `OAuthEngine`, except for a few that its kind makes differently.
package protocol EngineBacked: ProviderInspection, TimeTelling {
    var engine: OAuthEngine { get }

    /// Whether `check --online` tests the provider's keys; true if every login needs the keys.
    var probesKeys: Bool { get }
}

extension EngineBacked {
    package var profile: ProviderProfile { engine.profile }
    package var breaker: CircuitBreaker.State { engine.caller.limiter.breaker }
    package var failuresInARow: Int { engine.caller.limiter.failuresInARow }
    package var refusesCallsFor: Duration? { engine.caller.limiter.refusesFor }
    package var places: Int { engine.caller.limiter.places }
    package var identities: [(client: ClientName, identity: ClientIdentity)] { engine.identities }
    package var warnings: [String] { engine.watch.warnings }
    package func probe() async -> [ProbeResult] { await engine.probe(keysToo: probesKeys) }
}
