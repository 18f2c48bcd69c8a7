package import Broker

/// Asks the old system of one client about its sessions.
struct OldSystem: Sendable {
    /// The limits of one question: the time for its answer's header, and for the whole answer.
    static let (headTime, time) = (Duration.seconds(5), Duration.seconds(10))

    private let settings: OldSystemSettings
    private let provider: ProviderName
    private let clock: BrokerClock
    private let caller: ProviderCaller

    init(_ settings: OldSystemSettings, of provider: ProviderSettings, _ environment: ProviderEnvironment) {
        self.settings = settings
        self.provider = provider.name
        clock = environment.clock
        // The old system is another server than the provider, so it has limits of its own. A breaker would hold back
        // posts after the old system is mended.
        var own = provider
        own.allowPrivate = settings.isInternal
        own.limits = CallLimits(total: Self.time, failuresToOpen: .max)
        var caller = ProviderCaller(http: environment.http, settings: own, clock: environment.clock)
        caller.shown = ClientConnections(ConnectionSettings(trust: settings.trust), environment.http)?.now()
        self.caller = caller
    }

    /// Returns the old system's decision; throws `notSent`, `lost` or `retryable` if it is missing.
    func claim(_ claim: LegacyClaim, by deadline: Duration) async throws(ProviderFailure) -> LegacyAnswer {
        try OldSystemAnswer.read(
            try await ask(claim, credential: settings.credential, by: deadline), id: claim.id, at: clock.now())
    }

    /// Asks with a credential, and returns the whole answer.
    func ask(
        _ claim: LegacyClaim, credential: Secret, by deadline: Duration
    ) async throws(ProviderFailure) -> ProviderAnswer {
        var writer = JSONWriter(capacity: 512)
        writer.object { writer in
            writer.member("id", claim.id)
            writer.member("provider", provider.text)
            writer.member("client", claim.client.text)
            writer.member("token", claim.token.reveal())
        }
        return try await caller.send(
            ProviderRequest(
                method: "POST", url: settings.url, connection: .single,
                headers: [
                    ("Authorization", "Bearer " + credential.reveal()), ("Content-Type", "application/json"),
                    ("Accept", "application/json"),
                ],
                body: writer.bytes, headWithin: Self.headTime),
            by: min(deadline, clock.monotonic() + Self.time))
    }
}

extension LegacyClaiming where Self: EngineBacked {
    package func claim(_ claim: LegacyClaim, by deadline: Duration) async throws(ProviderFailure) -> LegacyAnswer {
        guard let oldSystem = try engine.client(claim.client).oldSystem else {
            throw .notSent(detail: "the client lacks `move_in`")
        }
        return try await oldSystem.claim(claim, by: deadline)
    }
}

extension OIDCClient: LegacyClaiming {}
extension OAuth2Client: LegacyClaiming {}
