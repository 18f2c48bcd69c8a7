import BrokerTestSupport
import BrokerVault
import Testing

@testable import Broker

/// Limits of presence: the sessions that may have a presence key, the number of proofs in a minute, and refusals before the
/// store is read.
@Suite("Limits of presence", .timeLimit(.minutes(1)))
struct PresenceBoundsTests {
    private static let widget = ChildKind(unchecked: "widget")
    private let broker: TestBroker
    private let store: ScriptedStore

    init() throws {
        var client = ClientProfile(
            name: ClientName(unchecked: "ios"), redirectURIs: [RedirectURI(TestBroker.redirect)].compactMap { $0 })
        client.children = [Self.widget: ChildPolicy()]
        let clock = TestClock()
        store = ScriptedStore(InMemoryStore(monotonic: clock.clock.monotonic))
        broker = try TestBroker(store: store, clients: [client], clock: clock)
    }

    private var binding: SessionBinding {
        SessionBinding(thumbprint: broker.vault.digest(Secret("key")), policy: BindingPolicy())
    }

    private func session() async throws -> LiveSession {
        try await broker.useCases.resumeSession.resume(broker.signIn().token)
    }

    private func child(of parent: LiveSession) async throws -> LiveSession {
        let made = try await broker.useCases.makeChild.make(ChildOrder(kind: Self.widget, name: "home"), of: parent)
        return try await broker.useCases.resumeSession.resume(made.token)
    }

    @Test(
        "A presence key for an unbound session or a child → refused, with a logged reason; for a bound app session → allowed"
    )
    func admits() async throws {
        let session = try await session()
        let child = try await child(of: session)
        for (live, reason) in [
            (session, "the session is not bound"), (child, "the session is not bound"),
            (child.with(binding), "the session is a child"),
        ] {
            let refusal = await problem { try RegisterPresenceKey.admits(live) }
            #expect(refusal?.code == .clientNotAllowed && refusal?.privateDetail == reason)
            // The route has made this check, and the use case makes it again.
            let register = RegisterPresenceKey(broker.context)
            #expect(await problem { try await register.register(.none, for: live) }?.code == .clientNotAllowed)
        }
        try RegisterPresenceKey.admits(session.with(binding))
    }

    @Test(
        "A call of a bound session lacks its presence proof → `presence_required` and an event, before the store is read"
    )
    func missing() async throws {
        let session = try await session().with(binding)
        let reads = store.count(.session)
        let refusal = await problem { try await PresenceCheck(broker.context).judge(.none, of: session) }
        #expect(refusal?.code == .presenceRequired && store.count(.session) == reads)
        let results = broker.events.all.compactMap {
            if case .presenceJudged(_, _, let result) = $0 { result } else { nil }
        }
        #expect(results == ["presence_required"])
    }

    @Test(
        "A bound child's call needs presence → refused with the scheme of bound sessions, and a note that the parent has to call"
    )
    func ofChild() async throws {
        let child = try await child(of: session()).with(binding)
        let refusal = await problem { try await PresenceCheck(broker.context).judge(.none, of: child) }
        #expect(refusal?.presence == PresenceRefusal(.required, isBound: true, isOfParent: true))
    }

    @Test("A presence key is stored → its record has format 1, and is read back unchanged")
    func record() throws {
        let presence = SessionPresence(thumbprint: binding.thumbprint, registeredAt: TestClock.start)
        #expect(presence.record.first == 1)
        #expect(try SessionPresence(record: presence.record) == presence)
    }

    @Test(
        "The table of presence uses is full → a session without an entry is refused until another's entry is a minute old"
    )
    func full() {
        let uses = PresenceUses(maximum: 2)
        let sessions = (0..<4).map { broker.vault.digest(Secret("session \($0)")) }
        #expect(uses.take(sessions[0], at: .seconds(10)) && uses.take(sessions[1], at: .seconds(10)))
        #expect(!uses.take(sessions[2], at: .seconds(10)))
        #expect(uses.count == 2)
        // The table is full, but sessions that are already in it can still use proofs.
        #expect(uses.take(sessions[0], at: .seconds(10)))
        #expect(!uses.take(sessions[2], at: .milliseconds(69_000)))
        #expect(!uses.take(sessions[2], at: .milliseconds(69_999)))
        #expect(uses.take(sessions[2], at: .seconds(70)))
        #expect(uses.take(sessions[3], at: .seconds(71)))
        #expect(uses.count == 2)
    }

    @Test(
        "A session uses presence for the 31st time in a minute → refused until the first of these uses is a minute old")
    func perMinute() {
        let uses = PresenceUses()
        let session = broker.vault.digest(Secret("session"))
        for number in 0..<30 { #expect(uses.take(session, at: .milliseconds(number))) }
        #expect(!uses.allows(session, at: .milliseconds(59_999)) && !uses.take(session, at: .milliseconds(59_999)))
        #expect(uses.allows(session, at: .seconds(60)) && uses.take(session, at: .seconds(60)))
        #expect(!uses.take(session, at: .seconds(60)))
    }
}
