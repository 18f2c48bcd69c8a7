import BrokerTestSupport
import BrokerVault
import Synchronization
import Testing

@testable import Broker

/// Tickets for web views: their exact lifetime, and faults of the clock, the store and the key ring.
@Suite("Tickets of hand-overs", .timeLimit(.minutes(1)))
struct HandOverTests {
    private static let own = "https://auth.example.com"
    private static let foreign = "https://shop.example.com"
    private let broker: TestBroker
    private let store: ScriptedStore
    private let crossed: CrossedTickets

    init() throws {
        var web = ChildPolicy()
        web.origins = [Self.own, Self.foreign]
        var client = ClientProfile(
            name: ClientName(unchecked: "ios"), redirectURIs: [RedirectURI(TestBroker.redirect)].compactMap { $0 })
        client.children = [.web: web]
        let clock = TestClock()
        crossed = CrossedTickets(InMemoryStore(monotonic: clock.clock.monotonic))
        store = ScriptedStore(crossed)
        broker = try TestBroker(store: store, clients: [client], clock: clock)
    }

    private func begin(_ session: SignedIn, origin: String = own) async throws -> Secret {
        let live = try await broker.useCases.resumeSession.resume(session.token)
        let order = HandoverOrder(origin: origin, path: "/", challenge: broker.vault.digest(Secret("secret")))
        return Secret(String(try await broker.useCases.handOver.begin(order, of: live).url.reveal().suffix(43)))
    }

    private func look(_ ticket: Secret) async -> ProblemCode? {
        await problem { try await broker.useCases.handOver.look(ticket) }?.code
    }

    @Test(
        "A ticket is used in its last millisecond → accepted; a millisecond later → expired, and the session may get a new ticket"
    )
    func time() async throws {
        let session = try await broker.signIn()
        let ticket = try await begin(session)
        for _ in 1..<HandOver.tickets { _ = try await begin(session) }
        broker.clock.advance(broker.context.settings.handoffLifetime - .milliseconds(1))
        #expect(await look(ticket) == nil)
        #expect(await problem { try await begin(session) }?.code == .rateLimited)
        broker.clock.advance(.milliseconds(1))
        #expect(await look(ticket) == .handoverExpired)
        #expect(await problem { try await begin(session) } == nil)
    }

    @Test(
        "Two calls choose one slot for a ticket, and one is first to store → the other takes the next slot; both tickets are good"
    )
    func crossing() async throws {
        let session = try await broker.signIn()
        let other = Mutex<Secret?>(nil)
        crossed.meanwhile.withLock { meanwhile in
            meanwhile = {
                let ticket = try? await begin(session)
                other.withLock { $0 = ticket }
            }
        }
        let ticket = try await begin(session)
        #expect(await look(ticket) == nil)
        #expect(await look(try #require(other.withLock { $0 })) == nil)
    }

    @Test(
        "A ticket for another site's page is shown at the broker's own page → `handover_expired`, like an unknown ticket"
    )
    func elsewhere() async throws {
        let session = try await broker.signIn()
        #expect(await look(try await begin(session)) == nil)
        #expect(await look(try await begin(session, origin: Self.foreign)) == .handoverExpired)
    }

    @Test(
        "The clock, the store or the key ring fails for a while → a ticket gets 503 meanwhile, and is accepted afterwards"
    )
    func faults() async throws {
        let session = try await broker.signIn()
        let ticket = try await begin(session)
        broker.clock.jump(.seconds(3600))
        #expect(await look(ticket) == .storeUnavailable)
        broker.clock.jump(.seconds(-3600))
        broker.context.cache.clear()
        store.fails.withLock { $0 = { operation, _ in operation == .session } }
        #expect(await look(ticket) == .storeUnavailable)
        store.fails.withLock { $0 = { _, _ in false } }
        broker.vault.note(isTheStores: false)
        #expect(await problem { try await begin(session) }?.code == .storeUnavailable)
        broker.vault.note(isTheStores: true)
        #expect(await look(ticket) == nil)
        _ = try await begin(session)
    }
}

/// A store that lets another request run before it stores the first ticket.
private final class CrossedTickets: AroundStore {
    let base: any BrokerStore
    let meanwhile = Mutex<(@Sendable () async -> Void)?>(nil)

    init(_ base: any BrokerStore) { self.base = base }

    func around<Value: Sendable>(
        _ operation: StoreOperation, _ work: @escaping StoreWork<Value>
    ) async throws(StoreFailure) -> Value {
        try await work(base)
    }

    func keepHandoff(_ row: HandoffRow) async throws(StoreFailure) -> Bool {
        let other = meanwhile.withLock { meanwhile in
            defer { meanwhile = nil }
            return meanwhile
        }
        await other?()
        return try await base.keepHandoff(row)
    }
}
