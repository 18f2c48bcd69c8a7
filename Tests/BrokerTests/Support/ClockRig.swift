import BrokerTestSupport
import Synchronization

@testable import Broker

/// A broker with everything that may speak for its clock, each as a test has it: the kernel, providers, the machine.
final class ClockRig: Sendable {
    /// A provider that tells the time; what it says is a test's.
    final class Teller: TimeTelling {
        let profile: ProviderProfile
        let timeHost: String?
        /// Returns the time that its answers say; nil for no evidence.
        let says: @Sendable () -> WallTime?
        let asked = Mutex(0)
        /// Passes when it is asked: an answer may take long.
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

    /// Breaks the circle between the rig and what its inquiry asks.
    private final class Told: Sendable {
        let rig = Mutex<ClockRig?>(nil)
        var kernel: Bool? { rig.withLock { $0 }?.kernel.withLock { $0 } }
        var tellers: [any TimeTelling] { rig.withLock { $0 }?.tellers.withLock { $0 } ?? [] }
    }

    /// Lets time pass as a running process sees it: it looks every two seconds.
    func run(_ seconds: Int, step: Int = 2) async throws {
        for _ in 0..<(seconds / step) {
            broker.clock.advance(.seconds(step))
            try await inquiry.look()
        }
    }

    func may(_ act: TimedAct) -> Bool { broker.context.may(act) }
}
