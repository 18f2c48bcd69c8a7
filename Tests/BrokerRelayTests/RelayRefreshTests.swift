import Broker
import BrokerRelay
import BrokerWire
import HTTPTypes
import NIOCore
import Testing

@Suite("An upstream's 401 (SEC-60, SEC-61, SEC-82)", .timeLimit(.minutes(2)))
struct RelayRefreshTests {
    /// Accepts only `token-1`.
    @Sendable private static func refusingFirst(_ connection: ScriptedConnection) async throws {
        while let request = try await connection.request() {
            if request.values("authorization") == ["Bearer token-1"] {
                try await connection.answer(body: request.target)
            } else {
                let challenge = request.target == "/silent" ? [] : ["WWW-Authenticate: Bearer error=\"invalid_token\""]
                try await connection.answer("401 Unauthorized", fields: challenge, body: "no")
            }
        }
    }

    @Test("An upstream answers 401 → exactly one refresh and one repeat, including the body")
    func replay() async throws {
        try await ScriptedUpstream.run(Self.refusingFirst) { upstream in
            try await RelayFixture.run(at: upstream.url) { (fixture) async throws in
                let response = try await fixture.call(.put, "/a", body: .whole(ByteBuffer(string: "hello")))
                #expect(response.status == .ok)
                #expect((fixture.tokens.given, fixture.tokens.forced) == (2, 1))
            }
            #expect(upstream.received.map { String(buffer: $0.body) } == ["hello", "hello"])
            #expect(upstream.received.map { $0.values("authorization") } == [["Bearer token-0"], ["Bearer token-1"]])
        }
    }

    @Test(
        "An upstream answers a call and its repeat with 401 → the second 401 is passed on without its challenge (SEC-82)"
    )
    func remains() async throws {
        try await ScriptedUpstream.run({ connection in
            while try await connection.request() != nil {
                try await connection.answer("401 Unauthorized", fields: ["WWW-Authenticate: Bearer"], body: "no")
            }
        }) { upstream in
            try await RelayFixture.run(at: upstream.url) { (fixture) async throws in
                let response = try await fixture.call(.get, "/a")
                #expect(response.status == .unauthorized)
                #expect(response.headers[.coatcheckSource] == "upstream")
                #expect(response.headers[.wwwAuthenticate] == nil)
                #expect(try await response.body.text() == "no")
                #expect((fixture.tokens.given, fixture.tokens.forced) == (2, 1))
            }
            #expect(upstream.received.count == 2)
        }
    }

    @Test(
        "A long stream gets 401, or a POST without a challenge → passed on; a short POST gets a challenge → repeated (SEC-60)"
    )
    func noReplay() async throws {
        try await ScriptedUpstream.run(Self.refusingFirst) { upstream in
            try await RelayFixture.run(at: upstream.url) { (fixture) async throws in
                let source = ChunkSource(chunk: ByteBuffer(repeating: 0x61, count: 10_000), count: 10)
                let streamed = UpstreamRequest.Body.stream(UpstreamRequest.Stream(source), length: 100_000)
                #expect(try await fixture.call(.post, "/a", body: streamed).status == .unauthorized)
                #expect(try await fixture.call(.put, "/a", body: streamed).status == .unauthorized)
                let small = UpstreamRequest.Body.whole(ByteBuffer(string: "x"))
                #expect(try await fixture.call(.post, "/silent", body: small).status == .unauthorized)
                #expect(fixture.tokens.forced == 0)
            }
            #expect(upstream.received.count == 3)
            try await RelayFixture.run(at: upstream.url) { (fixture) async throws in
                let small = UpstreamRequest.Body.stream(
                    UpstreamRequest.Stream(ChunkSource(chunk: ByteBuffer(string: "x"), count: 1)), length: 1)
                #expect(try await fixture.call(.post, "/challenged", body: small).status == .ok)
                #expect(fixture.tokens.forced == 1)
            }
            #expect(upstream.received.suffix(2).map(\.bodySize) == [1, 1])
        }
    }

    @Test(
        "An upstream answers 401, and the refresh fails → the broker's problem; the session has no refresh token → the 401"
    )
    func refreshFails() async throws {
        try await ScriptedUpstream.run(Self.refusingFirst) { upstream in
            try await RelayFixture.run(at: upstream.url) { (fixture) async throws in
                func call(_ code: ProblemCode) async throws -> RelayResponse {
                    try await fixture.relay.call(
                        try fixture.request(.get, "/a"), session: fixture.session, signIns: fixture.signIns,
                        token: { (_, _, force) throws(BrokerProblem) in
                            if force { throw BrokerProblem(code) }
                            return AccessToken(Secret("old"))
                        })
                }
                for code in [ProblemCode.sessionEnded, .providerUnavailable] {
                    await #expect { try await call(code) } throws: { ($0 as? BrokerProblem)?.code == code }
                }
                let response = try await call(.notRefreshable)
                #expect(response.status == .unauthorized)
                #expect(try await response.body.text() == "no")
            }
        }
    }

    @Test("Many sessions call at the same time → each call has its own session's token (SEC-61)")
    func ownTokens() async throws {
        try await ScriptedUpstream.run({ connection in
            while let request = try await connection.request() {
                try await connection.answer(body: request.values("authorization").joined())
            }
        }) { upstream in
            try await RelayFixture.run(at: upstream.url) { (fixture) async throws in
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for session in 0..<40 {
                        group.addTask {
                            let tokens = TokenGiver("session\(session)")
                            for _ in 0..<5 {
                                let response = try await fixture.relay.call(
                                    try fixture.request(.get, "/same"), session: fixture.session,
                                    signIns: fixture.signIns,
                                    token: { (_, _, force) throws(BrokerProblem) in tokens.give(force) })
                                #expect(try await response.body.text() == "Bearer session\(session)-0")
                            }
                        }
                    }
                    try await group.waitForAll()
                }
            }
            #expect(upstream.received.count == 200)
        }
    }
}
