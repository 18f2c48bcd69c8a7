import BrokerTestSupport
import Synchronization
import Testing

@testable import Broker

/// The single use of presence proofs after their check, at one replica and at several.
@Suite("Single use of presence proofs", .timeLimit(.minutes(1)))
struct PresenceTakingTests {
    private let broker: TestBroker
    private let user = SigningPhone()
    private let token = Secret("a-session-token")

    init() throws { broker = try TestBroker() }

    /// The proof check of one replica, which remembers used proofs in a memory of its own.
    private func replica(_ shared: TestSharedStore?) -> ProofCheck {
        let context = broker.context
        var settings = BrokerSettings()
        settings.proofOrigins = ProofOrigins(publicURL: "https://broker.example.test")
        return ProofCheck(
            context: BrokerContext(
                clock: context.clock, spawner: context.spawner, events: context.events, vault: context.vault,
                store: context.store, providers: context.providers, cache: SessionCache(), notices: SessionNotices(),
                settings: settings, shared: shared))
    }

    private var session: Digest { broker.vault.digest(token) }

    private func candidate(_ name: String, at check: ProofCheck) throws -> ProofVerifier.Candidate {
        let proof = try user.proof(method: "POST", identifier: name, nonce: check.nonce, token: token)
        return try check.candidate(
            PresentedEvidence(
                proofs: [proof], target: ProofTarget(method: "POST", address: .own(path: "/v1/session"))),
            tokenDigest: session)
    }

    private func take(_ candidate: ProofVerifier.Candidate, at check: ProofCheck) async -> String? {
        do throws(BrokerProblem) {
            try await check.takePresence(candidate, of: session, paidBy: .nobody)
            return nil
        } catch { return error.presence?.result ?? error.code.rawValue }
    }

    @Test(
        "A presence proof passes its check, and then its nonce expires before the proof is recorded as used → refused",
        arguments: [false, true])
    func late(isShared: Bool) async throws {
        let store = isShared ? TestSharedStore(clock: broker.clock) : nil
        let check = replica(store)
        let (first, second) = (try candidate("1", at: check), try candidate("1", at: check))
        let other = try candidate("2", at: check)
        #expect(await take(first, at: check) == nil)
        #expect(await take(second, at: check) == "replayed")
        broker.clock.advance(.seconds(600))
        #expect(await take(second, at: check) == "nonce")
        #expect(await take(other, at: check) == "nonce")
        #expect(await take(try candidate("3", at: check), at: check) == nil)
    }

    @Test(
        "A presence proof is released, or the store fails while recording its use → every replica accepts the proof again"
    )
    func givenBack() async throws {
        let store = TestSharedStore(clock: broker.clock)
        let (here, there) = (replica(store), replica(store))
        let proof = try candidate("1", at: here)
        store.isAway.withLock { $0 = true }
        #expect(await take(proof, at: here) == "store_unavailable")
        store.isAway.withLock { $0 = false }
        #expect(await take(proof, at: here) == nil)
        #expect(await take(proof, at: there) == "replayed")
        await here.giveBackPresence(proof)
        #expect(await take(proof, at: there) == nil)
        #expect(await take(proof, at: here) == "replayed")
        await there.giveBackPresence(proof)
        #expect(await take(proof, at: here) == nil)
    }

    @Test(
        "Forty replayed presence proofs wait for a slow store → a new proof is accepted: replays do not count in the limit of 30"
    )
    func counted() async throws {
        let store = TestSharedStore(clock: broker.clock)
        let check = replica(store)
        let spent = try (0..<40).map { try candidate("spent\($0)", at: check) }
        let end = broker.clock.now.advanced(by: ProofNonce.lifetime)
        for candidate in spent { _ = try await store.takeProof(candidate.name, until: end) }
        store.gate.close()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for candidate in spent { group.addTask { #expect(await take(candidate, at: check) == "replayed") } }
            #expect(try await eventually { store.gate.waiting == 40 })
            store.gate.passNewcomers()
            // The user's own proof arrives while the proofs that a thief copied wait for the slow store.
            #expect(await take(try candidate("mine", at: check), at: check) == nil)
            store.gate.open()
            try await group.waitForAll()
        }
        let all = try (0..<60).map { try candidate("all\($0)", at: check) }
        let used = await withTaskGroup(of: String?.self) { group in
            for candidate in all { group.addTask { await take(candidate, at: check) } }
            return await group.reduce(0) { $0 + ($1 == nil ? 1 : 0) }
        }
        #expect(used == 29)
        broker.clock.advance(.seconds(60))
        #expect(await take(try candidate("next", at: check), at: check) == nil)
    }

    @Test(
        "Forty good presence proofs come at once, and the store is slow → thirty are accepted, and the other ten a minute later"
    )
    func countedAtOnce() async throws {
        let store = TestSharedStore(clock: broker.clock)
        let check = replica(store)
        let proofs = try (0..<40).map { try candidate("p\($0)", at: check) }
        store.gate.close()
        let told = try await withThrowingTaskGroup(of: (Int, String?).self) { group in
            for (number, proof) in proofs.enumerated() { group.addTask { (number, await take(proof, at: check)) } }
            #expect(try await eventually { store.gate.waiting == 40 })
            store.gate.open()
            return try await group.reduce(into: [Int: String]()) { $0[$1.0] = $1.1 }
        }
        #expect(told.count == 10 && told.values.allSatisfy { $0 == "rate_limited" }, "\(told)")
        broker.clock.advance(.seconds(60))
        for number in told.keys { #expect(await take(proofs[number], at: check) == nil) }
    }
}
