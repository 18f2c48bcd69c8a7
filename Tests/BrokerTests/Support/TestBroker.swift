import BrokerTestSupport
import BrokerVault
import Synchronization
import Testing

@testable import Broker

/// The use cases with a real vault and, by default, an in-memory store and a scripted provider.
struct TestBroker: Sendable {
    let clock: TestClock
    let provider: ScriptedProvider
    let store: any BrokerStore
    let vault: OpenSSLVault
    let events: EventLog
    let context: BrokerContext
    let useCases: BrokerUseCases

    static let redirect = "com.example.app:/cb"

    init(
        store: (any BrokerStore)? = nil, vault sharedVault: OpenSSLVault? = nil,
        provider shared: ScriptedProvider? = nil,
        clients: [ClientProfile]? = nil, script: ScriptedProvider.Script = .init(), settings: BrokerSettings = .init(),
        also others: [any ProviderClient] = [], reach: RevocationReach = .token,
        clock: TestClock = TestClock(), behind outerVault: (any Vault)? = nil, correctsClock: Bool = false,
        sharing: (any SharedStore)? = nil,
        before hears: @escaping @Sendable (BrokerEvent) -> Void = { _ in }
    ) throws {
        self.clock = clock
        let correctsClock = correctsClock || sharing != nil
        let watch = correctsClock ? ClockWatch(correcting: clock.clock) : ClockWatch()
        let redirect = RedirectURI(Self.redirect).map { [$0] } ?? []
        let named = { (name: String) in ClientName(unchecked: name) }
        let standard = [
            ClientProfile(
                name: named("ios"), login: .both, redirectURIs: redirect, scope: ["openid", "email"], nonce: true,
                allowedParameters: ["login_hint", "max_age"], revocationReach: reach),
            ClientProfile(
                name: named("strict"), redirectURIs: [RedirectURI("com.example.strict:/cb")].compactMap { $0 }),
            ClientProfile(
                name: named("nopkce"), login: .both, pkce: .unsupported,
                redirectURIs: [RedirectURI("clever-x://oauth")].compactMap { $0 }),
            ClientProfile(
                name: named("native"), login: .app,
                redirectURIs: [RedirectURI("com.example.native:/cb")].compactMap { $0 },
                nonce: true, nativeCode: true),
        ]
        let profile = ProviderProfile(
            name: ProviderName(unchecked: "as"), kind: .oidc, displayName: "AS", issuer: "https://as.example",
            callbackIssuer: "https://as.example",
            clients: clients ?? standard, stepUp: .everything)
        provider = shared ?? ScriptedProvider(profile: profile, clock: clock, script: script)
        vault = try sharedVault ?? OpenSSLVault(ring: KeyRing.generate(now: clock.now, random: SystemRandom.bytes))
        self.store = store ?? InMemoryStore(monotonic: clock.clock.monotonic)
        let events = EventLog()
        self.events = events
        context = BrokerContext(
            clock: correctsClock ? watch.corrected(clock.clock) : clock.clock,
            spawner: Spawner { _, work in Task { await work() } },
            events: EventSink {
                hears($0)
                events.append($0)
            }, vault: outerVault ?? vault, store: self.store,
            providers: ProviderDirectory([provider] + others), cache: SessionCache(), notices: SessionNotices(),
            settings: settings, watch: watch, shared: sharing)
        useCases = BrokerUseCases(context, publicURL: "https://auth.example.com")
    }

    /// The number of logins that were burned, according to the events.
    var burned: Int {
        events.all.filter { if case .loginBurned = $0 { true } else { false } }.count
    }

    /// Starts a login of a client, by default `ios`.
    func start(
        _ client: String = "ios", loginToken: Secret? = nil, charge: Charge = .nobody
    ) async throws -> StartedLogin {
        try await useCases.startLogin.start(
            StartLoginInput(
                provider: ProviderName(unchecked: "as"), client: ClientName(unchecked: client), loginToken: loginToken,
                charge: charge))
    }

    func callback(_ login: StartedLogin, code: String = "code-1", extra: String = "&iss=https%3A%2F%2Fas.example")
        -> String
    {
        "\(Self.redirect)?code=\(code)&state=\(login.state.reveal())\(extra)"
    }

    func forward(
        _ url: String, _ loginToken: Secret?, session: Secret? = nil, charge: Charge = .nobody
    ) async throws -> SignedIn {
        var input = ForwardCodeInput()
        input.callbackURL = url
        input.loginToken = loginToken
        input.presentedSession = session
        input.charge = charge
        return try await forward(input)
    }

    func forward(_ input: ForwardCodeInput) async throws -> SignedIn {
        guard case .signedIn(let signedIn) = try await useCases.forwardCode.forward(input) else {
            throw BrokerProblem(.internalError)
        }
        return signedIn
    }

    func signIn(code: String = "code-1") async throws -> SignedIn {
        let login = try await start()
        return try await forward(callback(login, code: code), login.loginToken)
    }
}

/// The events that the broker emitted.
final class EventLog: Sendable {
    private let events = Mutex<[BrokerEvent]>([])
    func append(_ event: BrokerEvent) { events.withLock { $0.append(event) } }
    var all: [BrokerEvent] { events.withLock { $0 } }
}

/// Returns the problem that `body` throws; nil if `body` succeeds.
///
/// If `body` throws another error, the test fails.
func problem(_ body: () async throws -> some Any) async -> BrokerProblem? {
    do {
        _ = try await body()
        return nil
    } catch let problem as BrokerProblem {
        return problem
    } catch {
        Issue.record(error)
        return nil
    }
}
