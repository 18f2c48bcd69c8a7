package import Broker

/// Makes the provider clients that a configuration names.
package enum ProviderCatalogue {
    /// Makes one client for each entry, in order; throws `CatalogueFailure` for settings that can never work.
    /// - `random` returns the given number of random bytes from the vault, for example for the ids of client assertions.
    /// - `nonces` are the DPoP nonces of all providers, which stay when the configuration is reloaded.
    /// - `keeping` returns the existing client of an unchanged entry, which keeps its breaker, metadata and keys.
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

    /// Makes the client for an entry's kind; this is the only switch over all kinds.
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

/// The reason why a provider's settings are unusable; it contains no secret.
package struct CatalogueFailure: Error, Sendable, Equatable, CustomStringConvertible {
    /// The fault, in words for the operator.
    package let description: String

    init(_ description: String) { self.description = description }
}

/// The parts of the process that every provider client uses.
struct ProviderEnvironment: Sendable {
    let http: ProviderHTTP
    let clock: BrokerClock
    let random: @Sendable (Int) throws -> [UInt8]
    /// The nonces for the broker's proofs, which outlive a configuration.
    let nonces: ProofNonces
    /// Called with a detail for the log when a server refuses a client's certificate.
    let certificateRefused: @Sendable (ProviderName, ClientName, String) -> Void
    /// Called with a sentence for the log when an endpoint in a provider's new metadata is not a callable URL.
    let endpointUnusable: @Sendable (ProviderName, String) -> Void
    /// Called when a breaker opens or closes.
    let breakerTurned: @Sendable (BreakerTurn) -> Void

    /// Returns the object that makes a provider's calls; with `isLogOut`, the one for its log-out page, which has its own
    /// breaker.
    func caller(_ settings: ProviderSettings, isLogOut: Bool = false) -> ProviderCaller {
        ProviderCaller(http: http, settings: settings, clock: clock) { [breakerTurned, name = settings.name] isOpen in
            breakerTurned(BreakerTurn(provider: name, isLogOut: isLogOut, isOpen: isOpen))
        }
    }
}

/// The opening or closing of a provider's breaker.
package struct BreakerTurn: Sendable, Equatable {
    package let provider: ProviderName
    /// Whether this is the breaker of the provider's log-out page.
    package let isLogOut: Bool
    package let isOpen: Bool

    package init(provider: ProviderName, isLogOut: Bool = false, isOpen: Bool) {
        self.provider = provider
        self.isLogOut = isLogOut
        self.isOpen = isOpen
    }
}
