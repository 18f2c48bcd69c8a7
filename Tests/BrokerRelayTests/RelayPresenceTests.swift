import Broker
import BrokerWire
import HTTPTypes
import Synchronization
import Testing

@testable import BrokerRelay

/// Judges presence as a test says, and counts what was taken and given back.
private final class Presences: Sendable {
    struct Counts: Equatable {
        var judged = 0
        var taken = 0
        var givenBack = 0
    }

    private let state = Mutex(Counts())
    let judgement, taking: ProblemCode?

    init(judgement: ProblemCode? = nil, taking: ProblemCode? = nil) {
        self.judgement = judgement
        self.taking = taking
    }

    var counts: Counts { state.withLock { $0 } }

    func judge() throws(BrokerProblem) -> JudgedPresence {
        state.withLock { $0.judged += 1 }
        if let judgement { throw BrokerProblem(judgement) }
        return JudgedPresence { [self] () async throws(BrokerProblem) in
            state.withLock { $0.taken += 1 }
            if let taking { throw BrokerProblem(taking) }
        } giveBack: { [self] in
            state.withLock { $0.givenBack += 1 }
        }
    }
}

@Suite("Presence that calls need", .timeLimit(.minutes(2)))
struct RelayPresenceTests {
    private static func entries(_ text: String = "ANY /pay/**") throws -> [UpstreamRequirement] {
        var demand = StepUpDemand()
        demand.presence = true
        return [try UpstreamRequirement(text, demand)]
    }

    private func code(
        _ fixture: RelayFixture, _ presences: Presences, _ target: String, _ method: HTTPRequest.Method = .get
    ) async throws -> ProblemCode? {
        let tokens = fixture.tokens
        let request = try fixture.request(method, target)
        do throws(BrokerProblem) {
            _ = try await fixture.relay.call(
                request, session: fixture.session, signIns: fixture.signIns,
                presence: { _ throws(BrokerProblem) in try presences.judge() }
            ) { _, _, force throws(BrokerProblem) in tokens.give(force) }
            return nil
        } catch { return error.code }
    }

    @Test("A call that does not show presence asks for no token, reaches nobody and takes nothing")
    func refused() async throws {
        try await RelayFixture.run(at: "http://127.0.0.1:9", require: try Self.entries()) { (fixture) async throws in
            let presences = Presences(judgement: .presenceRequired)
            #expect(try await code(fixture, presences, "/pay/1") == .presenceRequired)
            #expect(presences.counts == Presences.Counts(judged: 1))
            #expect(fixture.tokens.given == 0)
            // Where nobody judges it nobody calls, either.
            #expect(try await fixture.problem(.get, "/pay/1").code == .presenceRequired)
        }
    }

    @Test("Sign-ins come first, and a call that needs no presence judges none")
    func order() async throws {
        var both = StepUpDemand(contextClasses: ["mfa"])
        both.presence = true
        let entries = [try UpstreamRequirement("ANY /pay/**", both)]
        let signIns = SignIns(.stepUpRequired)
        try await RelayFixture.run(at: "http://127.0.0.1:9", require: entries, signIns: signIns) {
            (fixture) async throws in
            let presences = Presences()
            #expect(try await code(fixture, presences, "/pay/1") == .stepUpRequired)
            #expect(signIns.required == [StepUpDemand(contextClasses: ["mfa"])])
            #expect(try await code(fixture, presences, "/other") != .stepUpRequired)
            #expect(presences.counts == Presences.Counts())
        }
    }

    @Test("A proof that is not taken keeps the call from going out")
    func untaken() async throws {
        let calls = Mutex(0)
        try await ScriptedUpstream.run({ connection in
            while try await connection.request() != nil {
                calls.withLock { $0 += 1 }
                try await connection.answer()
            }
        }) { upstream in
            try await RelayFixture.run(at: upstream.url, require: try Self.entries()) { (fixture) async throws in
                for refusal in [ProblemCode.storeUnavailable, .presenceInvalid, .rateLimited] {
                    let presences = Presences(taking: refusal)
                    #expect(try await code(fixture, presences, "/pay/1") == refusal)
                    #expect(presences.counts == Presences.Counts(judged: 1, taken: 1))
                }
                #expect(calls.withLock { $0 } == 0)
                let presences = Presences()
                #expect(try await code(fixture, presences, "/pay/1", .post) == nil)
                #expect(presences.counts == Presences.Counts(judged: 1, taken: 1))
                #expect(calls.withLock { $0 } == 1)
            }
        }
    }

    @Test("It is given back where nobody was reached, and not where the upstream may have seen the call")
    func givenBack() async throws {
        try await RelayFixture.run(at: "http://127.0.0.1:1", require: try Self.entries()) { (fixture) async throws in
            let presences = Presences()
            #expect(try await code(fixture, presences, "/pay/1") == .upstreamError)
            #expect(presences.counts == Presences.Counts(judged: 1, taken: 1, givenBack: 1))
        }
        // It reads the request, and goes away.
        try await ScriptedUpstream.run({ connection in _ = try await connection.request() }) { upstream in
            try await RelayFixture.run(at: upstream.url, require: try Self.entries()) { (fixture) async throws in
                let presences = Presences()
                #expect(try await code(fixture, presences, "/pay/1") == .upstreamError)
                #expect(presences.counts == Presences.Counts(judged: 1, taken: 1))
            }
        }
    }

    @Test("The relay's own repeat after an upstream's 401 needs no other proof")
    func repeated() async throws {
        try await ScriptedUpstream.run({ connection in
            _ = try await connection.request()
            try await connection.answer("401 Unauthorized", body: "no")
            while try await connection.request() != nil { try await connection.answer() }
        }) { upstream in
            try await RelayFixture.run(at: upstream.url, require: try Self.entries()) { (fixture) async throws in
                let presences = Presences()
                #expect(try await code(fixture, presences, "/pay/1") == nil)
                #expect(fixture.tokens.forced == 1)
                #expect(presences.counts == Presences.Counts(judged: 1, taken: 1))
            }
        }
    }

    @Test("A proof of presence never reaches an upstream, whatever `request_headers` says")
    func header() throws {
        #expect(throws: UpstreamFault.self) { try RequestHeaderRules.extraName("coatcheck-presence") }
    }
}
