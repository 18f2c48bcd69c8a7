import Broker
import BrokerWire
import HTTPTypes
import NIOCore
import NIOHTTP1
import Testing

@testable import BrokerRelay

@Suite("Calls that the relay refuses", .timeLimit(.minutes(2)))
struct RelayRefusalTests {
    @Test("A relay path names no configured upstream → 404", arguments: ["other", "", "API", "api%2f", "..", "api;x"])
    func unknown(name: String) async throws {
        try await RelayFixture.run(at: "http://127.0.0.1:9") { (fixture) async throws in
            var request = try fixture.request(.get, "/x")
            request.target = RelayTarget(upstream: name, path: "/x")
            await #expect {
                _ = try await fixture.relay.call(
                    request, session: fixture.session, signIns: fixture.signIns,
                    token: { (_, _, _) throws(BrokerProblem) in fixture.tokens.give(false) })
            } throws: {
                ($0 as? BrokerProblem)?.code == .upstreamNotFound
            }
            #expect(fixture.tokens.given == 0)
        }
    }

    @Test(
        "A session is of another provider or client than the upstream's → refused before an access token is read (SEC-72)"
    )
    func wrongSession() async throws {
        try await RelayFixture.run(at: "http://127.0.0.1:9", clients: ["ios"]) { (fixture) async throws in
            for (provider, client) in [("apple", "ios"), ("google", "android"), ("Google", "ios")] {
                var other = fixture
                other.session = RelayFixture.session(provider: provider, client: client)
                #expect(try await other.problem(.get, "/x").code == .upstreamNotAllowed)
            }
            #expect(fixture.tokens.given == 0)
        }
    }

    @Test("The setting `employees` is off → a call about employees is refused, even if an `allow` entry matches")
    func employees() async throws {
        let targets = ["/v3/merchants/M1/employees", "/v3/merchants/M1/orders?expand=employee"]
        try await ScriptedUpstream.run(answeringOK) { upstream in
            try await RelayFixture.run(at: upstream.url, hidesEmployees: true) { (fixture) async throws in
                for target in targets {
                    #expect(try await fixture.problem(.get, target).code == .upstreamNotAllowed)
                }
                #expect(fixture.tokens.given == 0 && upstream.received.isEmpty)
                #expect(try await fixture.call(.get, "/v3/merchants/M1/orders").status == .ok)
            }
        }
    }

    @Test(
        "A session's credential has another kind than the upstream's setting `credential` → the credential is never sent (SEC-72)"
    )
    func wrongCredential() async throws {
        try await ScriptedUpstream.run(answeringOK) { upstream in
            try await RelayFixture.run(at: upstream.url, credential: .zephrCookie) { (fixture) async throws in
                #expect(try await fixture.problem(.get, "/x").code == .upstreamNotAllowed)
            }
            #expect(upstream.received.isEmpty)
        }
    }

    @Test("An app relays CONNECT or TRACE → 405; it asks for an upgrade to another protocol than h2c → 400 (SEC-80)")
    func methods() async throws {
        try await RelayFixture.run(at: "http://127.0.0.1:9") { (fixture) async throws in
            #expect(try await fixture.problem(.connect, "/x").code == .methodNotAllowed)
            #expect(try await fixture.problem(.trace, "/x").code == .methodNotAllowed)
            #expect(try await fixture.problem(.get, "/x", headers: [.upgrade: "websocket"]).code == .invalidRequest)
            #expect(try await fixture.problem(.get, "/x", headers: [.connection: "Upgrade"]).code == .invalidRequest)
            #expect(
                try await fixture.problem(.get, "/x", headers: [.upgrade: "h2c", .connection: "Upgrade"]).code
                    == .upstreamError)
        }
    }

    @Test(
        "A path that two servers could read differently → the upstream gets only paths that its `allow` list has (SEC-73)"
    )
    func tricks() async throws {
        try await ScriptedUpstream.run(answeringOK) { upstream in
            try await RelayFixture.run(at: upstream.url, allow: ["GET /open/**"]) { (fixture) async throws in
                for (trick, _) in CanonicalPathTests.tricks where !trick.contains("?") {
                    for path in ["/open" + trick, "/open" + trick + "/secret", "/open/x" + trick] {
                        _ = try? await fixture.call(.get, path)
                    }
                    _ = try? await fixture.call(.get, "/secret" + trick)
                }
                #expect(try await fixture.call(.get, "/open/x").status == .ok)
            }
            for request in upstream.received {
                #expect(request.target.hasPrefix("/open/"))
                #expect(!request.target.contains("..") && !request.target.contains("%2"))
            }
        }
    }

    @Test(
        "A session's access token has bytes that could end its header field → the token is not sent (SEC-78)",
        arguments: ["a\r\nX: y", "a b", "a\u{0}", "", "é", "a\u{7F}"])
    func badToken(text: String) async throws {
        try await ScriptedUpstream.run(answeringOK) { upstream in
            try await RelayFixture.run(at: upstream.url) { (fixture) async throws in
                let request = try fixture.request(.get, "/x")
                await #expect {
                    _ = try await fixture.relay.call(
                        request, session: fixture.session, signIns: fixture.signIns,
                        token: { (_, _, _) throws(BrokerProblem) in AccessToken(Secret(text)) })
                } throws: { error in
                    guard let problem = error as? BrokerProblem else { return false }
                    return problem.code == .upstreamError && (text.isEmpty || !"\(problem)".contains(text))
                }
            }
            #expect(upstream.received.isEmpty)
        }
    }

    @Test("A relayed body exceeds the limit, with a right length, a wrong length or none → 413 (SEC-81)")
    func tooLarge() async throws {
        try await ScriptedUpstream.run(answeringOK) { upstream in
            try await RelayFixture.run(at: upstream.url, maximumBody: 200_000) { (fixture) async throws in
                let chunk = ByteBuffer(repeating: 0x61, count: 10_000)
                let source = ChunkSource(chunk: chunk, count: 100)
                let announced = UpstreamRequest.Body.stream(UpstreamRequest.Stream(source), length: 1_000_000)
                #expect(try await fixture.problem(.post, "/x", body: announced).code == .tooLarge)
                #expect(source.asked.count == 0)
                let open = UpstreamRequest.Body.stream(UpstreamRequest.Stream(source), length: nil)
                #expect(try await fixture.problem(.post, "/x", body: open).code == .tooLarge)
                #expect(source.asked.count <= 21)
                let lying = UpstreamRequest.Body.stream(UpstreamRequest.Stream(source), length: 5000)
                #expect(try await fixture.problem(.post, "/x", body: lying).code == .tooLarge)
                let whole = UpstreamRequest.Body.whole(ByteBuffer(repeating: 0x61, count: 200_001))
                #expect(try await fixture.problem(.post, "/x", body: whole).code == .tooLarge)
            }
            #expect(upstream.received.isEmpty)
        }
    }

    @Test("An app makes a call after the relay's shutdown → refused at once", .timeLimit(.minutes(1)))
    func afterShutdown() async throws {
        try await ScriptedUpstream.run(answeringOK) { upstream in
            try await RelayFixture.run(at: upstream.url) { (fixture) async throws in
                await fixture.relay.shutdown()
                #expect(try await fixture.problem(.get, "/x").code == .upstreamError)
                let body = UpstreamRequest.Body.stream(
                    UpstreamRequest.Stream(ChunkSource(chunk: ByteBuffer(string: "x"), count: 3)), length: nil)
                #expect(try await fixture.problem(.put, "/x", body: body).code == .upstreamError)
            }
            #expect(upstream.received.isEmpty)
        }
    }

    @Test(
        "A public upstream's name leads to a private address → nothing is sent, and the call fails at once (SEC-74)"
    )
    func privateAddress() async throws {
        try await ScriptedUpstream.run(answeringOK) { upstream in
            let client = UpstreamClient(try UpstreamBase(upstream.url), .publicOnly, RelayOutbound(), tls: nil)
            for _ in 0..<5 {
                do throws(UpstreamFailure) {
                    _ = try await client.send(UpstreamRequest(.GET, "/x", [:], within: .seconds(10)))
                    Issue.record("must be refused")
                } catch {
                    let problem = RelayFailure(error).problem
                    #expect(problem.code == .upstreamError)
                    #expect(problem.privateDetail == "the upstream's address is not one that it may have")
                }
            }
            await client.shutDown()
            #expect(upstream.received.isEmpty)
        }
    }

    @Test("No program listens at the upstream's address → 502")
    func down() async throws {
        try await RelayFixture.run(at: "http://127.0.0.1:1") { (fixture) async throws in
            #expect(try await fixture.problem(.get, "/x").code == .upstreamError)
        }
    }
}
