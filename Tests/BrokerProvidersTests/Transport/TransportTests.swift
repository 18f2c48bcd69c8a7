import AsyncHTTPClient
import Broker
import Foundation
import NIOCore
import Synchronization
import Testing

@testable import BrokerProviders

@Suite("The outcome of a call to a provider", .timeLimit(.minutes(2)))
struct TransportTests {
    struct Fixture: Sendable {
        let http = ProviderHTTP()
        var limiter = CallLimiter(limits: CallLimits(), clock: Support.clock)

        func post(
            _ url: String, total: Duration = .seconds(30), internalAddresses: Bool = false
        ) async throws(ProviderFailure) -> ProviderAnswer {
            try await http.send(
                ProviderRequest(
                    method: "POST", url: try parsed(url), connection: .single, body: Array("code=secret".utf8)),
                limiter: limiter, internalAddresses: internalAddresses, total: total)
        }

        func get(_ url: String, total: Duration = .seconds(30)) async throws(ProviderFailure) -> ProviderAnswer {
            try await http.send(.get(try parsed(url)), limiter: limiter, internalAddresses: false, total: total)
        }

        func parsed(_ url: String) throws(ProviderFailure) -> EndpointURL {
            guard let url = EndpointURL(url) else { throw .unusable(detail: "no URL") }
            return url
        }
    }

    func with<Result>(_ body: (Fixture) async throws -> Result) async throws -> Result {
        let fixture = Fixture()
        do {
            let result = try await body(fixture)
            await fixture.http.shutdown()
            return result
        } catch {
            await fixture.http.shutdown()
            throw error
        }
    }

    func isNotSent(_ failure: ProviderFailure?) -> Bool { if case .notSent = failure { true } else { false } }
    func isLost(_ failure: ProviderFailure?) -> Bool { if case .lost = failure { true } else { false } }

    @Test("The provider refuses the connection → the call counts as not sent")
    func refused() async throws {
        try await with { fixture in
            // No process accepts connections at port 1. Another test could take a port that is free at this moment.
            let failure = await Support.failure { try await fixture.post("http://127.0.0.1:1/token") }
            #expect(isNotSent(failure))
        }
    }

    @Test("The TLS handshake fails → the call counts as not sent")
    func tls() async throws {
        let server = try RawServer { _ in .json("{}") }
        try await with { fixture in
            let failure = await Support.failure {
                try await fixture.post("https://127.0.0.1:\(server.port)/token", total: .seconds(3))
            }
            #expect(isNotSent(failure))
            #expect(server.received.isEmpty)
        }
    }

    @Test("The provider's name does not resolve → the call counts as not sent")
    func dns() async throws {
        try await with { fixture in
            let failure = await Support.failure { try await fixture.post("https://nowhere.invalid/token") }
            #expect(isNotSent(failure))
        }
    }

    @Test("A connection to a private address → closed before anything is sent (SEC-74)")
    func privateAddress() async throws {
        let server = try RawServer { _ in .json("{}") }
        let clients = HTTPClients(TransportSettings(), group: HTTPClient.defaultEventLoopGroup)
        for connection in [ProviderRequest.ConnectionUse.single, .pooled] {
            let client = try #require(clients[connection, .publicOnly])
            await #expect(throws: AddressPolicy.Refused.self) {
                try await client.execute(HTTPClientRequest(url: server.base), timeout: .seconds(5))
            }
        }
        await clients.shutdown()
        #expect(server.received.isEmpty)
    }

    @Test("A connection breaks after the request was sent → the answer is lost, and the call does not count as unsent")
    func dropped() async throws {
        let server = try RawServer { _ in .close }
        try await with { fixture in
            let failure = await Support.failure { try await fixture.post(server.base + "/token") }
            #expect(isLost(failure))
            #expect(server.received.map(\.body) == ["code=secret"])
        }
    }

    @Test("A provider receives a call and does not answer → the answer is lost when the call's total time is over")
    func hangs() async throws {
        let server = try RawServer { _ in .hang }
        try await with { fixture in
            let failure = await Support.failure { try await fixture.post(server.base, total: .seconds(3)) }
            #expect(isLost(failure))
        }
    }

    @Test(
        "An answer's body stops early, or hangs until the call's total time is over → the answer is lost (library note 3)"
    )
    func slowBody() async throws {
        let server = try RawServer { _ in .raw(Array("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{\"a".utf8)) }
        let dripping = try RawServer { _ in
            .rawThenHang(Array("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{\"a".utf8))
        }
        try await with { fixture in
            let truncated = await Support.failure { try await fixture.post(server.base) }
            #expect(isLost(truncated))
            let hung = await Support.failure { try await fixture.post(dripping.base, total: .seconds(3)) }
            #expect(isLost(hung))
        }
    }

    @Test("An answer that is not HTTP → counts as lost")
    func garbage() async throws {
        let server = try RawServer { _ in .raw(Array("SSH-2.0-OpenSSH_9.6\r\n".utf8)) }
        try await with { fixture in
            let failure = await Support.failure { try await fixture.post(server.base) }
            #expect(isLost(failure))
        }
    }

    @Test(
        "The provider answers with a redirect → the redirect is the answer, and is never followed (SEC-17)",
        arguments: [301, 302, 303, 307, 308])
    func redirects(_ status: Int) async throws {
        let target = try RawServer { _ in .json("{}") }
        let server = try RawServer { [base = target.base] _ in .http(status, [("Location", base + "/steal")], []) }
        try await with { fixture in
            let answer = try await fixture.post(server.base)
            #expect(answer.status == status)
            #expect(target.received.isEmpty)
            #expect(throws: ProviderFailure.self) { try answer.requireUsable(at: WallTime(seconds: 0)) }
        }
    }

    @Test("An answer's body over 1 MiB → the status without a body, with the fault tooLarge (SEC-122)")
    func huge() async throws {
        let server = try RawServer { _ in .http(200, [], [UInt8](repeating: 0x20, count: 5 << 20)) }
        try await with { fixture in
            let answer = try await fixture.post(server.base, total: .seconds(30))
            #expect(answer.fault == .tooLarge)
            #expect(answer.body.isEmpty)
        }
    }

    @Test("A compressed body that expands to more than 1 MiB → the fault tooLarge (SEC-122)")
    func bomb() async throws {
        let bytes = try #require(Data(base64Encoded: Bombs.gzipOf5MiB))
        let server = try RawServer { _ in .http(200, [("Content-Encoding", "gzip")], Array(bytes)) }
        try await with { fixture in
            let answer = try await fixture.post(server.base)
            #expect(answer.fault == .tooLarge)
        }
    }

    @Test("An answer's body that is not the gzip data it claims to be → the fault undecodable")
    func brokenCompression() async throws {
        let server = try RawServer { _ in .http(200, [("Content-Encoding", "gzip")], Array("not gzip at all".utf8)) }
        try await with { fixture in
            let answer = try await fixture.post(server.base)
            #expect(answer.fault == .undecodable)
        }
    }

    @Test("Three token calls → three connections; three GET calls → one connection (library note 5)")
    func connections() async throws {
        let server = try RawServer { _ in .json("{}") }
        try await with { fixture in
            for _ in 0..<3 { _ = try await fixture.post(server.base) }
            #expect(server.connections == 3)
            for _ in 0..<3 { _ = try await fixture.get(server.base) }
            #expect(server.connections == 4)
        }
    }

    @Test("The server closes a reused connection at the second GET call → the GET call is repeated")
    func staleConnection() async throws {
        let count = Mutex(0)
        let server = try RawServer { _ in
            let number = count.withLock { count in
                count += 1
                return count
            }
            return number == 2 ? .close : .json("{}")
        }
        try await with { fixture in
            _ = try await fixture.get(server.base)
            _ = try await fixture.get(server.base)
            #expect(server.received.count == 3)
        }
    }

    @Test("A token call → asks for gzip or deflate in Accept-Encoding, and sends its own body uncompressed")
    func wire() async throws {
        let server = try RawServer { _ in .json("{}") }
        try await with { fixture in
            _ = try await fixture.post(server.base + "/token?x=1")
            let request = try #require(server.received.first)
            #expect(request.method == "POST" && request.target == "/token?x=1")
            #expect(request.header("Accept-Encoding") == "gzip, deflate")
            #expect(request.header("Content-Length") == "11")
            #expect(request.header("Transfer-Encoding") == nil)
        }
    }

    @Test("A request's header field has a line break → the request is never sent (SEC-78)")
    func headerInjection() async throws {
        let server = try RawServer { _ in .json("{}") }
        try await with { fixture in
            let failure = await Support.failure { () async throws(ProviderFailure) in
                try await fixture.http.send(
                    ProviderRequest(
                        method: "POST", url: try fixture.parsed(server.base), connection: .single,
                        headers: [("Authorization", "Bearer x\r\nX-Evil: 1")], body: []), limiter: fixture.limiter,
                    internalAddresses: false, total: .seconds(2))
            }
            #expect(failure != nil)
            #expect(server.received.isEmpty)
        }
    }
}
