import BrokerTestSupport
import Synchronization

@testable import Broker

/// A broker with a clock inquiry, which asks the kernel and providers about the broker's clock.
///
/// The test chooses the answers of the kernel and of the providers.
final class ClockRig: Sendable {
    /// A provider that can be asked for the time.
    ///
    /// The test chooses its answers.
    final class Teller: TimeTelling {
        let profile: ProviderProfile
        let timeHost: String?
        /// Returns the time in the provider's answer; nil if the answer cannot be evidence.
        let says: @Sendable () -> WallTime?
        let asked = Mutex(0)
        /// Called when the provider is asked for the time.
        ///
        /// The closure may delay the provider's answer.
        let delays: @Sendable () -> Void

        init(
            _ name: String, host: String?, delays: @escaping @Sendable () -> Void = {},
            says: @escaping @Sendable () -> WallTime?
        ) {
            profile = ProviderProfile(
                name: ProviderName(unchecked: name), kind: .oidc, displayName: name, issuer: "https://\(name).example",
                callbackIssuer: nil, clients: [])
            timeHost = host
            self.says = says
            self.delays = delays
        }

        func time() async -> WallTime? {
            asked.withLock { $0 += 1 }
            delays()
            return says()
        }

        func startAuthorization(
            _ request: AuthorizationRequest, by deadline: Duration
        ) async throws(ProviderFailure) -> AuthorizationStart {
            throw .notSent(detail: "a clock only")
        }
    }

    let broker: TestBroker
    let inquiry: ClockInquiry
    let kernel = Mutex<Bool?>(nil)
    let tellers = Mutex<[Teller]>([])

    init(
        store: (any BrokerStore)? = nil, like: TestBroker? = nil, clock: TestClock = TestClock(),
        shared: (any SharedStore)? = nil, clients: [ClientProfile]? = nil
    ) throws {
        broker = try TestBroker(
            store: store, vault: like?.vault, clients: clients, script: .init(tokenLifetime: nil), clock: clock,
            sharing: shared)
        let told = Told()
        inquiry = ClockInquiry(
            broker.context, kernel: { told.kernel }, sources: { told.tellers })
        told.rig.withLock { $0 = self }
    }

    /// The sources that the inquiry asks, kept here to break the reference cycle between the rig and its inquiry.
    private final class Told: Sendable {
        let rig = Mutex<ClockRig?>(nil)
        var kernel: Bool? { rig.withLock { $0 }?.kernel.withLock { $0 } }
        var tellers: [any TimeTelling] { rig.withLock { $0 }?.tellers.withLock { $0 } ?? [] }
    }

    /// Advances the clocks of a running process by some seconds.
    ///
    /// The process checks its clock every `step` seconds.
    func run(_ seconds: Int, step: Int = 2) async throws {
        for _ in 0..<(seconds / step) {
            broker.clock.advance(.seconds(step))
            try await inquiry.look()
        }
    }

    func may(_ act: TimedAct) -> Bool { broker.context.may(act) }
}
