import Testing

@testable import BrokerProviders

@Suite("Addresses that providers may have")
struct IPAddressTests {
    @Test(
        "A private, local, mapped, documentation or multicast address is not public (SEC-74)",
        arguments: [
            "0.0.0.0", "10.1.2.3", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.0.1", "169.254.169.254",
            "172.16.0.1", "172.31.255.255", "192.0.0.8", "192.0.2.1", "192.168.1.1", "198.18.0.1", "198.19.255.1",
            "198.51.100.7", "203.0.113.9", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255", "::", "::1",
            "::ffff:8.8.8.8", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "100::1", "2001:db8::1", "2001::1",
            "2002:7f00:1::",
            "fc00::1", "fd12:3456::1", "fe80::1", "fec0::1", "ff02::1", "3fff::1",
        ])
    func refuses(_ text: String) throws {
        let address = try #require(IPAddress(text))
        #expect(!address.isPublic)
    }

    @Test(
        "A public address is public",
        arguments: [
            "1.1.1.1", "8.8.8.8", "100.63.255.255", "172.15.0.1", "172.32.0.1", "2606:4700::1111", "2a00:1450::",
        ])
    func allows(_ text: String) throws {
        let address = try #require(IPAddress(text))
        #expect(address.isPublic)
    }

    @Test(
        "What is no address is none",
        arguments: [
            "", "1.2.3", "1.2.3.4.5", "256.1.1.1", "1.2.3.x", ":::", "1::2::3", "12345::", "1:2:3:4:5:6:7", "::1%eth0",
            "fe80",
        ])
    func nonsense(_ text: String) { #expect(IPAddress(text) == nil) }

    @Test("Loopback is known in both families")
    func loopback() {
        #expect(IPAddress("127.9.9.9")?.isLoopback == true)
        #expect(IPAddress("::1")?.isLoopback == true)
        #expect(IPAddress("8.8.8.8")?.isLoopback == false)
    }
}
