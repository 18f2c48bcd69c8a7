package import Broker

/// Makes the provider clients that a configuration names.
package enum ProviderCatalogue {
    /// Makes one provider client for each entry, in order; throws `CatalogueFailure` for settings that can never work.
    /// - `random` returns the given number of random bytes from the vault, for example for the ids of client assertions.
    /// - `nonces` are the DPoP nonces of all providers. They are kept when the configuration is reloaded.
    /// - `keeping` returns the existing provider client if its entry is unchanged. Its breaker, metadata and keys are kept.
    package static func make(
        settings: [ProviderSettings], http: ProviderHTTP, clock: BrokerClock,
        random: @escaping @Sendable (Int) throws -> [UInt8], nonces: ProofNonces = ProofNonces(),
        certificateRefused: @escaping @Sendable (ProviderName, ClientName, String) -> Void = { _, _, _ in },
        endpointUnusable: @escaping @Sendable (ProviderName, String) -> Void = { _, _ in },
        breakerTurned: @escaping @Sendable (BreakerTurn) -> Void = { _ in },
        keeping: (ProviderName) -> (any ProviderClient)? = { _ in nil }
    ) throws -> [any ProviderClient] {
        let environment = ProviderEnvironment(
            http: http, clock: clock, random: random, nonces: nonces, certificateRefused: certificateRefused,
            endpointUnusable: endpointUnusable, breakerTurned: breakerTurned)
        return try settings.map { try keeping($0.name) ?? make($0, environment) }
    }

    /// Makes the provider client for an entry's kind; this is the only switch over all kinds.
    ///
    /// A new kind needs a case here, and a folder next to the folders of the present kinds.
    private static func make(
        _ settings: ProviderSettings, _ environment: ProviderEnvironment
    ) throws -> any ProviderClient {
        switch settings.service {
        case .oidc: try OIDCClient(settings, environment: environment)
        case .oauth2: try OAuth2Client(settings, environment: environment)
        case .clever(let own): try CleverClient(settings, own, environment: environment)
        case .clover(let own): try CloverClient(settings, own, environment: environment)
        case .zephr(let own): try ZephrClient(settings, own, environment: environment)
        }
    }
}
