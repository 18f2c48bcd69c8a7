import Broker
import BrokerTestSupport
import BrokerWire
import HTTPTypes
import Synchronization
import Testing

@testable import BrokerRelay

@Suite("Calls that need presence", .timeLimit(.minutes(2)))
struct RelayPresenceTests {
    private func code(
        _ fixture: RelayFixture, _ presences: Presences, _ target: String, _ method: HTTPRequest.Method = .get,
        refreshing: ProblemCode? = nil
    ) async throws -> ProblemCode? {
        let tokens = fixture.tokens
        let request = try fixture.request(method, target)
        do throws(BrokerProblem) {
            _ = try await fixture.relay.call(
                request, session: fixture.session, signIns: fixture.signIns,
                presence: { _ throws(BrokerProblem) in try presences.judge() }
            ) { _, _, force throws(BrokerProblem) in
                if force, let refreshing { throw BrokerProblem(refreshing) }
                return tokens.give(force)
            }
            return nil
        } catch { return error.code }
    }

    @Test(
        "A call that needs presence has no proof of it → refused, no access token is read, and no proof is marked as used"
    )
    func refused() async throws {
        try await RelayFixture.run(at: "http://127.0.0.1:9", require: try Presences.entries()) {
            (fixture) async throws in
            let presences = Presences(judgement: .presenceRequired)
            #expect(try await code(fixture, presences, "/pay/1") == .presenceRequired)
            #expect(presences.counts == Presences.Counts(judged: 1))
            #expect(fixture.tokens.given == 0)
            // The relay also refuses the call if it was started without a check of presence.
            #expect(try await fixture.problem(.get, "/pay/1").code == .presenceRequired)
        }
    }

    @Test(
        "A `require` entry needs presence, and a call spells the entry's path in another way → the call needs presence, too"
    )
    func encoded() async throws {
        let require = try Presences.entries("POST /payments/*/transfer:confirm")
        try await RelayFixture.run(at: "http://127.0.0.1:9", allow: ["POST /payments/**"], require: require) {
            (fixture) async throws in
            for path in ["/payments/1/transfer%3Aconfirm", "/payments/1/Transfer%3aConfirm/"] {
                let presences = Presences(judgement: .presenceRequired)
                #expect(try await code(fixture, presences, path, .post) == .presenceRequired)
            }
        }
    }

    private static func refusing(
        _ challenge: String, calls: Int = .max
    ) -> @Sendable (ScriptedConnection) async throws -> Void {
        let count = Mutex(0)
        return { connection in
            while try await connection.request() != nil {
                guard
                    count.withLock({
                        $0 += 1; return $0
                    }) <= calls
                else { return }
                try await connection.answer(
                    "401 Unauthorized", fields: ["WWW-Authenticate: \(challenge)"], body: "no")
            }
        }
    }

    private static let challenge = #"Bearer error="insufficient_user_authentication", acr_values="mfa""#

    @Test(
        "The upstream refuses a call, and the broker answers with its own problem → the call's presence proof may be used again"
    )
    func refusedByUpstream() async throws {
        for (signIns, expected) in [(SignIns(.stepUpRequired), ProblemCode.stepUpRequired), (SignIns(), .stepUpFailed)]
        {
            try await ScriptedUpstream.run(Self.refusing(Self.challenge)) { upstream in
                try await RelayFixture.run(at: upstream.url, require: try Presences.entries(), signIns: signIns) {
                    (fixture) async throws in
                    let presences = Presences()
                    #expect(try await code(fixture, presences, "/pay/1", .post) == expected)
                    #expect(presences.counts == Presences.Counts(judged: 1, taken: 1, givenBack: 1))
                }
            }
        }
        try await ScriptedUpstream.run(Self.refusing("Bearer")) { upstream in
            try await RelayFixture.run(at: upstream.url, require: try Presences.entries()) { (fixture) async throws in
                let presences = Presences()
                let code = try await code(fixture, presences, "/pay/1", refreshing: .providerUnavailable)
                #expect(code == .providerUnavailable)
                #expect(presences.counts == Presences.Counts(judged: 1, taken: 1, givenBack: 1))
                // The app gets the upstream's 401 as the answer, so the proof counts as used.
                let passed = Presences()
                #expect(try await self.code(fixture, passed, "/pay/1") == nil)
                #expect(passed.counts == Presences.Counts(judged: 1, taken: 1))
            }
        }
    }

    @Test(
        "The relay repeats a call after a 401, and the repeat gets no answer → the call's proof of presence stays used")
    func sentAgain() async throws {
        try await ScriptedUpstream.run(Self.refusing("Bearer", calls: 1)) { upstream in
            try await RelayFixture.run(at: upstream.url, require: try Presences.entries()) { (fixture) async throws in
                let presences = Presences()
                #expect(try await code(fixture, presences, "/pay/1", .post) == .upstreamError)
                #expect(fixture.tokens.forced == 1)
                #expect(presences.counts == Presences.Counts(judged: 1, taken: 1))
            }
        }
    }

    @Test(
        "A call's first attempt gets no answer, and the upstream refuses the repeat → the call's proof of presence stays used"
    )
    func refusedRepeat() async throws {
        let connections = Mutex(0)
        try await ScriptedUpstream.run({ connection in
            let isFirst = connections.withLock {
                $0 += 1; return $0 == 1
            }
            if try await connection.request() != nil {
                guard isFirst else {
                    return try await connection.answer(
                        "401 Unauthorized", fields: ["WWW-Authenticate: Bearer"], body: "no")
                }
                try await connection.answer()
            }
            // The upstream reads the second request and closes the connection. So the relay cannot know whether the upstream
            // has handled this request.
            _ = try await connection.request()
        }) { upstream in
            try await RelayFixture.run(at: upstream.url, require: try Presences.entries()) { (fixture) async throws in
                #expect(try await code(fixture, Presences(), "/pay/1") == nil)
                let presences = Presences()
                let code = try await code(fixture, presences, "/pay/1", refreshing: .providerUnavailable)
                #expect(code == .providerUnavailable)
                #expect(upstream.received.count == 3)
                #expect(presences.counts == Presences.Counts(judged: 1, taken: 1))
            }
        }
    }

    @Test(
        "A caller leaves before the upstream has the call → the presence proof may be used again; later → the proof stays used"
    )
    func abandoned() async throws {
        // The upstream never answers the TLS handshake.
        try await ScriptedUpstream.run({ try await $0.waitForClose() }) { upstream in
            let url = upstream.url.replacing("http://", with: "https://")
            try await RelayFixture.run(at: url, require: try Presences.entries()) { (fixture) async throws in
                let presences = Presences()
                let task = Task { try await code(fixture, presences, "/pay/1") }
                #expect(try await eventually { upstream.opened == 1 })
                task.cancel()
                #expect(try await task.value == .upstreamError)
                #expect(presences.counts == Presences.Counts(judged: 1, taken: 1, givenBack: 1))
            }
        }
        // The call is cancelled after the upstream has received the request, so the proof stays used.
        try await ScriptedUpstream.run({ connection in
            _ = try await connection.request()
            try await connection.waitForClose()
        }) { upstream in
            try await RelayFixture.run(at: upstream.url, require: try Presences.entries()) { (fixture) async throws in
                let presences = Presences()
                let task = Task { try await code(fixture, presences, "/pay/1") }
                #expect(try await eventually { upstream.received.count == 1 })
                task.cancel()
                #expect(try await task.value == .upstreamError)
                #expect(presences.counts == Presences.Counts(judged: 1, taken: 1))
            }
        }
    }

    @Test(
        "A call's sign-in is too weak, or no entry requires presence → its proof of presence is not checked and stays unused"
    )
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

    @Test("A call's proof of presence cannot be marked as used → the call is not sent")
    func untaken() async throws {
        let calls = Mutex(0)
        try await ScriptedUpstream.run({ connection in
            while try await connection.request() != nil {
                calls.withLock { $0 += 1 }
                try await connection.answer()
            }
        }) { upstream in
            try await RelayFixture.run(at: upstream.url, require: try Presences.entries()) { (fixture) async throws in
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

    @Test(
        "The upstream is not reached → a call's presence proof may be used again; it read the call → the proof stays used"
    )
    func givenBack() async throws {
        try await RelayFixture.run(at: "http://127.0.0.1:1", require: try Presences.entries()) {
            (fixture) async throws in
            let presences = Presences()
            #expect(try await code(fixture, presences, "/pay/1") == .upstreamError)
            #expect(presences.counts == Presences.Counts(judged: 1, taken: 1, givenBack: 1))
        }
        // The upstream reads the request and closes the connection.
        try await ScriptedUpstream.run({ connection in _ = try await connection.request() }) { upstream in
            try await RelayFixture.run(at: upstream.url, require: try Presences.entries()) { (fixture) async throws in
                let presences = Presences()
                #expect(try await code(fixture, presences, "/pay/1") == .upstreamError)
                #expect(presences.counts == Presences.Counts(judged: 1, taken: 1))
            }
        }
    }

    @Test(
        "The relay repeats a call after an upstream's 401 → the call's proof of presence is marked as used only once")
    func repeated() async throws {
        try await ScriptedUpstream.run({ connection in
            _ = try await connection.request()
            try await connection.answer("401 Unauthorized", body: "no")
            while try await connection.request() != nil { try await connection.answer() }
        }) { upstream in
            try await RelayFixture.run(at: upstream.url, require: try Presences.entries()) { (fixture) async throws in
                let presences = Presences()
                #expect(try await code(fixture, presences, "/pay/1") == nil)
                #expect(fixture.tokens.forced == 1)
                #expect(presences.counts == Presences.Counts(judged: 1, taken: 1))
            }
        }
    }

    @Test("`request_headers` lists `Coatcheck-Presence` → refused, so that no upstream gets a proof of presence")
    func header() throws {
        #expect(throws: UpstreamFault.self) { try RequestHeaderRules.extraName("coatcheck-presence") }
    }
}
