package import Broker

/// One thing that was tried at a provider, for `coatcheck check --online`.
package struct ProbeResult: Sendable, Equatable {
    /// The thing that was tried: `discovery`, `keys`, `clock`, `reach`.
    package let subject: String
    package let isGood: Bool
    /// The finding, and the change to make where it is wrong.
    ///
    /// Our own words.
    package let text: String
}

/// Shows what an operator asks about a provider; it decides nothing and sends no secret.
package protocol ProviderInspection: ProviderClient {
    /// The circuit breaker's state now.
    var breaker: CircuitBreaker.State { get }

    /// The number of the last calls that failed in a row: no answer, or a 5xx.
    var failuresInARow: Int { get }

    /// Tries discovery, key set and clock, whichever the kind has.
    func probe() async -> [ProbeResult]
}

extension ZephrClient: ProviderInspection {
    package var breaker: CircuitBreaker.State { caller.limiter.breaker }
    package var failuresInARow: Int { caller.limiter.failuresInARow }
    package var refusesCallsFor: Duration? { caller.limiter.refusesFor }

    package func probe() async -> [ProbeResult] {
        await ProviderProbe.reach(base, caller: caller, clock: clock)
    }
}
