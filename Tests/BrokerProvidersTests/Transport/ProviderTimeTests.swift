import AsyncHTTPClient
import Broker
import NIOCore
import NIOHTTP1
import Testing

@testable import BrokerProviders

/// A provider's `Date` as evidence about the clock, and the answers that do not count (decision 48).
@Suite(.timeLimit(.minutes(1))) struct ProviderTimeTests {
    private static let date = "Fri, 20 Nov 2026 21:20:00 GMT"

    @Test(
        "An answer from a cache, or with no Date, two Dates or a malformed Date → no evidence about the clock",
        arguments: [
            [], [("Date", date), ("Age", "0")], [("Date", date), ("Age", "86400")], [("Date", date), ("Date", date)],
            [("Date", "yesterday")], [("Last-Modified", date)],
        ])
    func noEvidence(fields: [(String, String)]) {
        #expect(ProviderTime.evidence(in: HTTPHeaders(fields)) == nil)
    }

    @Test(
        "The broker asks a provider for its time → the request contains no time, because it lacks proof, assertion and body"
    )
    func question() throws {
        let request = ProviderTime.request(try #require(EndpointURL("https://as.example/token")))
        #expect(
            Set(request.headers.map { $0.name.lowercased() })
                == ["user-agent", "accept", "cache-control", "connection"])
        #expect(request.method == .GET && request.body == nil && request.url == "https://as.example/token")
    }

    @Test("A provider's answer has one Date field → the broker uses this time as evidence about its clock")
    func evidence() {
        #expect(ProviderTime.evidence(in: ["Date": Self.date])?.seconds == 1_795_209_600)
    }

    @Test(
        "A provider on loopback or without TLS → not asked for the time",
        arguments: [
            "http://127.0.0.1:9000/token", "https://localhost/token", "https://127.0.0.1/token", "https://[::1]/token",
        ])
    func noHost(url: String) async throws {
        let settings = ProviderSettings(name: ProviderName(unchecked: "p"), service: .oidc, clients: [])
        let http = ProviderHTTP()
        let time = ProviderTime(EndpointURL(url), settings, http)
        #expect(time.host == nil)
        #expect(await time.ask() == nil)
        await http.shutdown()
    }

    @Test("Internal addresses are not allowed for a provider → the broker asks only public addresses for the time")
    func addresses() {
        let cases = ["1.1.1.1", "10.0.0.7", "192.168.1.7", "169.254.169.254", "fd00::7"].map { IPAddress($0) }
        #expect(
            cases.map { ProviderTime.addresses(areInternal: false).allows($0) } == [true, false, false, false, false])
        #expect(cases.map { ProviderTime.addresses(areInternal: true).allows($0) } == [true, true, true, true, true])
    }

    @Test(
        "The HTTP client that asks for the time reaches an address of this machine → it disconnects before it sends a byte"
    )
    func thisMachine() async throws {
        let server = try RawServer { _ in .http(200, [("Date", Self.date)], []) }
        for isElsewhere in [true, false] {
            let client =
                isElsewhere
                ? HTTPClients.elsewhere(
                    TransportSettings(), group: HTTPClient.defaultEventLoopGroup, trusting: nil, .any)
                : HTTPClient(eventLoopGroupProvider: .shared(HTTPClient.defaultEventLoopGroup))
            let answer = try? await client.execute(HTTPClientRequest(url: server.base + "/"), timeout: .seconds(5))
            try await client.shutdown()
            #expect((answer == nil) == isElsewhere)
        }
        #expect(server.received.count == 1)
    }
}
