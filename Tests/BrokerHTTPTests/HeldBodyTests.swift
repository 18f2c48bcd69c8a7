import Broker
import NIOCore
import Synchronization
import Testing

@testable import BrokerHTTP

@Suite("Memory for the request bodies of one user (SEC-105)", .timeLimit(.minutes(1)))
struct HeldBodyTests {
    private func row(_ harness: HTTPHarness, _ signedIn: SignedIn) async throws -> SessionRow {
        try await harness.useCases.resumeSession.resume(signedIn.token).row
    }

    private func refusal(_ bodies: HeldBodies, _ length: Int?, _ row: SessionRow) -> ProblemCode? {
        do throws(BrokerProblem) {
            _ = try bodies.take(length, for: row)
            return nil
        } catch { return error.code }
    }

    @Test(
        "A user has a share of the memory for request bodies → one session may use half of it, all sessions together all of it"
    )
    func shares() async throws {
        let harness = try HTTPHarness()
        let one = try await row(harness, try await harness.signIn(code: "canary-1"))
        let two = try await row(harness, try await harness.signIn(code: "canary-2"))
        let three = try await row(harness, try await harness.signIn(code: "canary-3"))
        #expect(one.subject == two.subject && one.tokenDigest != two.tokenDigest)
        let bodies = HeldBodies(limitPerSubject: 8 * 65_536)
        for _ in 0..<4 { #expect(refusal(bodies, 65_536, one) == nil) }
        #expect(refusal(bodies, 1, one) == .rateLimited)
        // A body counts as at most 64 KiB, the part that the broker holds at a time, even if its length is unknown or larger.
        for length in [nil, 1 << 30, 65_535, 60_000] { #expect(refusal(bodies, length, two) == nil) }
        #expect(refusal(bodies, 65_536, three) == .rateLimited)
        #expect(refusal(bodies, 5000, three) == nil)
        #expect(refusal(bodies, 2000, three) == .rateLimited)
        var stranger = three
        stranger.subject = one.tokenDigest
        stranger.tokenDigest = one.subject
        #expect(refusal(bodies, 65_536, stranger) == nil)
    }

    @Test(
        "Bodies with unverified proofs fill the memory of their address → other addresses, and verified requests, have their own"
    )
    func unproven() async throws {
        let harness = try HTTPHarness()
        let row = try await row(harness, try await harness.signIn())
        let bodies = HeldBodies(limitPerSubject: 4 * 65_536)
        func take(_ address: UInt32?) -> ProblemCode? {
            do throws(BrokerProblem) {
                let owner = HeldBodies.Owner(session: row, address: address.map { IPAddress(v4: $0) })
                _ = try bodies.take(65_536, of: 65_536, for: owner)
                return nil
            } catch { return error.code }
        }
        for _ in 0..<2 { #expect(take(1) == nil) }
        #expect(take(1) == .rateLimited)
        for _ in 0..<2 { #expect(take(2) == nil) }
        for _ in 0..<2 { #expect(take(nil) == nil) }
        #expect(take(nil) == .rateLimited)
    }

    @Test(
        "A session's request body is being served → it uses the session's memory; the memory is full → the next body gets 429"
    )
    func ownRoutes() async throws {
        let harness = try HTTPHarness()
        let (signedIn, bodies) = (try await harness.signIn(), harness.load.bodies)
        let row = try await row(harness, signedIn)
        func ask() async throws -> Int {
            try await harness.post(
                "/v1/session/children", #"{"kind":"widget","name":"home"}"#, harness.cookie(signedIn)
            ).status
        }
        #expect(try await ask() == 403)
        #expect(bodies.entries == 0)
        var places: [HeldBodies.Place] = []
        while let place = try? bodies.take(65_536, for: row) { places.append(place) }
        #expect(try await ask() == 429)
        let other = try await harness.signIn(code: "canary-2")
        #expect(
            try await harness.post("/v1/session/children", #"{"kind":"widget","name":"home"}"#, harness.cookie(other))
                .status == 403)
        // A request's body counts towards the limit until the handler has answered the request.
        let whileServed = Mutex(0)
        harness.provider.change { $0.meetsRefresh = { whileServed.withLock { $0 = bodies.entries } } }
        for place in places.suffix(2) { bodies.giveBack(place) }
        let before = bodies.entries
        #expect(try await harness.post("/v1/session/refresh", "{}", harness.cookie(other)).status == 200)
        #expect(whileServed.withLock { $0 } == before + 1)
        #expect(try await ask() == 403)
        for place in places.dropLast(2) { bodies.giveBack(place) }
        #expect(bodies.entries == 0)
    }

    @Test(
        "A request body's memory is released → the session's next body may use it; the last body is released → no entry stays"
    )
    func givingBack() async throws {
        let harness = try HTTPHarness()
        let row = try await row(harness, try await harness.signIn())
        let bodies = HeldBodies(limitPerSubject: 2 * 65_536)
        for _ in 0..<1000 {
            let place = try bodies.take(65_536, for: row)
            #expect(refusal(bodies, 10, row) == .rateLimited)
            bodies.giveBack(place)
        }
        bodies.giveBack(try bodies.take(0, for: row))
        #expect(bodies.entries == 0)
    }
}
