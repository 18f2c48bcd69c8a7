import Broker
import Testing

@testable import BrokerHTTP
@testable import BrokerWire

@Suite("The limits of an address and its networks at a listener (SEC-105)", .timeLimit(.minutes(1)))
struct PeerPolicyTests {
    private func policies(
        _ address: String, ofAll all: Int? = 2000, publicURL: String = "https://auth.example.com"
    ) throws -> [String] {
        var configuration = HTTPConfiguration(publicURL: publicURL)
        configuration.trustedProxies = [IPNetwork("10.0.0.0/8"), IPNetwork("2001:db8:ffff::/48")].compactMap { $0 }
        let address = try #require(IPAddress(address))
        let peer = PeerAddress(high: address.high, low: address.low)
        return PeerPolicy.each(configuration, ofAll: all)(peer).map { policy in
            let first = IPAddress(high: policy.key.address.high, low: policy.key.address.low)
            let bounds = [policy.anonymousConnections, policy.connections, policy.heldBytes.map { $0 >> 20 }]
            return "\(first)/\(policy.key.prefix): " + bounds.map { $0.map(String.init) ?? "-" }.joined(separator: " ")
        }
    }

    @Test(
        "IPv6 connections → a /64 may open at most 512, a /56 2,048, a /48 a quarter of all; fewer before a sign-in"
    )
    func levels() throws {
        let address = "2001:db8:1:2fe::7"
        #expect(
            try policies(address, ofAll: 100_000)
                == [
                    "2001:db8:1:2fe::/64: 128 512 8", "2001:db8:1:200::/56: 384 2048 16",
                    "2001:db8:1::/48: 896 25000 32",
                ])
        // Some systems permit a process only 512 descriptors. Each level may then have at most a quarter of them, which is 128
        // connections.
        #expect(
            try policies(address, ofAll: 512)
                == ["2001:db8:1:2fe::/64: 128 128 8", "2001:db8:1:200::/56: 128 128 16", "2001:db8:1::/48: 128 128 32"])
        #expect(try policies(address, ofAll: 3).last == "2001:db8:1::/48: 1 1 32")
        #expect(try policies(address, ofAll: nil).last == "2001:db8:1::/48: 896 \(Int.max) 32")
    }

    @Test("IPv4 connections → one address may open at most 512, and at most a quarter of all")
    func four() throws {
        #expect(try policies("192.0.2.1", ofAll: 100_000) == ["192.0.2.1/32: 128 512 8"])
        #expect(try policies("192.0.2.1", ofAll: 200) == ["192.0.2.1/32: 50 50 8"])
        #expect(try policies("64:ff9b::192.0.2.1", ofAll: 100_000) == ["192.0.2.1/32: 128 512 8"])
    }

    @Test("A trusted proxy, or loopback in development → may have any number of connections")
    func exempt() throws {
        #expect(try policies("10.1.2.3") == ["10.1.2.3/128: - - 64"])
        #expect(try policies("2001:db8:ffff:1::1") == ["2001:db8:ffff:1::1/128: - - 64"])
        #expect(try policies("::1", publicURL: "http://localhost:8080") == ["::1/128: - - -"])
        #expect(try policies("::1").count == 3)
        #expect(try policies("127.0.0.1", publicURL: "http://localhost:8080") == ["127.0.0.1/128: - - -"])
    }

    @Test(
        "Three networks open as many connections as their limits allow → a quarter of all connections is left for others"
    )
    func quarter() throws {
        let configuration = HTTPConfiguration(publicURL: "https://auth.example.com")
        let ledger = PeerLedger(policies: PeerPolicy.each(configuration, ofAll: 400))
        func open(_ site: UInt64) -> Int {
            (UInt64(0)..<65_536).lazy.prefix(400).count { number in
                ledger.open(PeerAddress(high: 0x2001_0DB8_0000_0000 | site << 16 | number, low: 1)) != nil
            }
        }
        #expect([open(1), open(2), open(3)] == [100, 100, 100])
        #expect(ledger.open(PeerAddress(high: 0, low: 0xFFFF_C000_0201)) != nil)
    }
}
