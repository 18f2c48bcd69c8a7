import BrokerTestSupport
import BrokerWire
import NIOCore
import NIOHTTP1
import NIOPosix
import Synchronization
import Testing

/// The addresses that a relayed call may reach.
///
/// The relay checks the address of the connected socket. Behind a proxy, it checks the requested address.
@Suite("Upstream addresses (SEC-74)", .timeLimit(.minutes(2)))
struct UpstreamAddressTests {
    /// An address policy that records the addresses that it judged.
    private final class Policy: Sendable {
        private let refused: Set<String>
        private let questions = Mutex<[String]>([])
        var asked: [String] { questions.withLock { $0 } }

        init(refusing refused: Set<String>) { self.refused = refused }

        func allows(_ address: SocketAddress?) -> Bool {
            let text = address?.ipAddress ?? "unknown"
            questions.withLock { $0.append(text) }
            return !refused.contains(text)
        }
    }

    private static func client(
        _ host: String, _ port: Int, _ policy: Policy, proxy: UpstreamTarget.Proxy? = nil
    ) -> UpstreamClient {
        var target = UpstreamTarget(host: host, port: port) { policy.allows($0) }
        target.proxy = proxy
        var limits = UpstreamLimits()
        // The upstream is a task in this process, so on a busy machine it may accept the connection late.
        limits.connect = .seconds(30)
        return UpstreamClient(target, limits, on: MultiThreadedEventLoopGroup.singleton.next())
    }

    /// Makes a call and returns its failure, or nil for an answer.
    private static func failure(_ client: UpstreamClient) async -> UpstreamFailure? {
        let request = UpstreamRequest(.GET, "/x", ["Host": "a"], body: .none, within: .seconds(40))
        let result: UpstreamFailure?
        do throws(UpstreamFailure) {
            _ = try await client.send(request)
            result = nil
        } catch { result = error }
        await client.shutDown()
        return result
    }

    private static func isRefused(_ failure: UpstreamFailure?) -> Bool {
        if case .refusedAddress = failure { true } else { false }
    }

    @Test(
        "An upstream's name leads to a forbidden address → the broker closes the connection before it sends anything",
        arguments: [
            "localhost", "127.0.0.1",
        ])
    func socket(host: String) async throws {
        let policy = Policy(refusing: ["127.0.0.1"])
        try await ScriptedUpstream.run { connection in
            _ = try await connection.request()
            try await connection.answer()
        } _: { (upstream) async throws in
            #expect(Self.isRefused(await Self.failure(Self.client(host, upstream.port, policy))))
            #expect(try await eventually { upstream.closed == upstream.opened })
            #expect(upstream.received.isEmpty)
            #expect(policy.asked == ["127.0.0.1"])
        }
    }

    @Test(
        "An upstream's URL has a forbidden IP address, and calls go through a proxy → the proxy is not contacted",
        arguments: ["10.1.2.3", "fd00::7"])
    func literalRefused(host: String) async throws {
        let policy = Policy(refusing: [host])
        try await ScriptedUpstream.run { connection in
            _ = try await connection.request()
        } _: { (proxy) async throws in
            let client = Self.client(host, 443, policy, proxy: .init(host: "127.0.0.1", port: proxy.port))
            #expect(Self.isRefused(await Self.failure(client)))
            #expect(proxy.opened == 0)
            #expect(policy.asked == [host])
        }
    }

    @Test(
        "A call goes through a proxy → the broker checks the upstream's IP address, if it has one, and never the proxy's",
        arguments: [
            ("192.0.2.7", "192.0.2.7:8443", ["192.0.2.7"]), ("2001:db8::7", "[2001:db8::7]:8443", ["2001:db8::7"]),
            ("api.example.test", "api.example.test:8443", []),
        ])
    func proxied(host: String, asked: String, judged: [String]) async throws {
        let policy = Policy(refusing: ["127.0.0.1"])
        try await ScriptedUpstream.run { connection in
            _ = try await connection.request()
            try await connection.write("HTTP/1.1 200 Connection established\r\n\r\n")
            _ = try await connection.request()
            try await connection.answer()
        } _: { (proxy) async throws in
            let client = Self.client(host, 8443, policy, proxy: .init(host: "127.0.0.1", port: proxy.port))
            #expect(await Self.failure(client) == nil)
            #expect(proxy.received.map(\.requestLine) == ["CONNECT \(asked) HTTP/1.1", "GET /x HTTP/1.1"])
            #expect(proxy.received.first?.values("host") == [asked])
            #expect(policy.asked == judged)
        }
    }
}
