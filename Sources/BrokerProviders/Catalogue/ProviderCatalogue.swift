package import Broker

/// Makes the provider clients of a configuration.
package enum ProviderCatalogue {
    /// Makes one client per entry, in order; throws `CatalogueFailure` for settings that cannot work.
    ///
    /// `random` gives that many random bytes (the vault's); it names assertions. `nonces` are those of the process. `keeping` returns the client of an entry
    /// that has not changed: its breaker, metadata and keys go on.
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

    /// The one closed switch over the kinds: adding one means a case here and a folder beside its neighbours.
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

/// The reason for which a provider's settings cannot be used; names no secret.
package struct CatalogueFailure: Error, Sendable, Equatable, CustomStringConvertible {
    /// The fault, for the operator.
    package let description: String

    init(_ description: String) { self.description = description }
}

/// The environment that every provider client is given.
struct ProviderEnvironment: Sendable {
    let http: ProviderHTTP
    let clock: BrokerClock
    let random: @Sendable (Int) throws -> [UInt8]
    /// The nonces for our proofs, which outlive a configuration.
    let nonces: ProofNonces
    /// Hears of a server that refuses a client's certificate.
    let certificateRefused: @Sendable (ProviderName, ClientName, String) -> Void
    /// Hears of an endpoint of a provider's metadata that is not a URL to call.
    let endpointUnusable: @Sendable (ProviderName, String) -> Void
    /// Hears of a breaker that opens or closes.
    let breakerTurned: @Sendable (BreakerTurn) -> Void

    /// Returns the maker of a provider's calls; `isLogOut` is for those to its log-out page, which have a breaker of their own.
    func caller(_ settings: ProviderSettings, isLogOut: Bool = false) -> ProviderCaller {
        ProviderCaller(http: http, settings: settings, clock: clock) { [breakerTurned, name = settings.name] isOpen in
            breakerTurned(BreakerTurn(provider: name, isLogOut: isLogOut, isOpen: isOpen))
        }
    }
}

/// The opening or closing of a provider's breaker.
package struct BreakerTurn: Sendable, Equatable {
    package let provider: ProviderName
    /// Whether it is the breaker of the provider's log-out page alone.
    package let isLogOut: Bool
    package let isOpen: Bool

    package init(provider: ProviderName, isLogOut: Bool = false, isOpen: Bool) {
        self.provider = provider
        self.isLogOut = isLogOut
        self.isOpen = isOpen
    }
}
