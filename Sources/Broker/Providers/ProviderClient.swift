/// A provider, with the calls that the use cases make.
///
/// Every provider can start logins. Each further ability has a protocol of its own, to which only providers with the ability
/// conform.
///
/// Implementations limit every call to 5 s for the connection, 15 s in all, the given deadline and a body of 1 MiB. They follow
/// no redirects, limit their concurrency, and have a circuit breaker for each provider. Secrets are never logged or thrown. A
/// deadline is a monotonic moment.
///
/// Metadata, keys and a schema are shared by all callers. Each fetch has its own time limit, so a caller's deadline does not
/// stop it.
package protocol ProviderClient: Sendable {
    var profile: ProviderProfile { get }

    /// The callback parameters that the provider itself needs, in addition to those in a client's configuration.
    var callbackHints: [String] { get }

    /// The remaining time of the open circuit breaker, which refuses calls to the provider; nil if calls are made.
    var refusesCallsFor: Duration? { get }

    /// The number of calls to the provider that may be in progress at a time.
    var places: Int { get }

    /// Returns the URL that the app opens for a login; may call the provider for discovery and PAR.
    func startAuthorization(
        _ request: AuthorizationRequest, by deadline: Duration
    ) async throws(ProviderFailure) -> AuthorizationStart
}

extension ProviderClient {
    package var callbackHints: [String] { [] }
    package var refusesCallsFor: Duration? { nil }
    package var places: Int { 256 }
}
