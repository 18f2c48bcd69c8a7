import Testing

@testable import Broker

@Suite("IP addresses (SEC-74, SEC-104)", .timeLimit(.minutes(2)))
struct IPAddressTests {
    @Test(
        "Text that is not an IP address → `IPAddress` is nil",
        arguments: [
            "", "1.2.3", "1.2.3.4.5", "01.2.3.4", "1.2.3.256", "1.2.3.-4", "+1.2.3.4", "1.2.3.x", "1.2.3.4 ", "0x7f.1",
            "::1::", ":::", "1::2::3", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "1:2:3:4:5:6:7:8::", "g::", "12345::",
            "+1::", "::1.2.3", "1.2.3.4::", "::1.2.3.4:5", "fe80", "fe80::1%eth0", "[::1]", "localhost", "::1/128",
        ])
    func malformed(_ text: String) { #expect(IPAddress(text) == nil) }

    @Test(
        "An IPv4 or IPv6 address in any spelling → read, and written in its canonical form",
        arguments: [
            ("1.2.3.4", "1.2.3.4"), ("::ffff:10.1.2.3", "10.1.2.3"), ("::FFFF:a01:203", "10.1.2.3"),
            ("2001:0DB8:0:0:0:0:0:1", "2001:db8::1"), ("::", "::"), ("::1", "::1"), ("1::", "1::"),
            ("2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"), ("2001:0:0:1:0:0:0:1", "2001:0:0:1::1"),
            ("2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"), ("::1.2.3.4", "::102:304"),
            ("64:ff9b::1.2.3.4", "64:ff9b::102:304"),
        ])
    func wellFormed(_ text: String, _ canonical: String) throws {
        let address = try #require(IPAddress(text))
        #expect(address.description == canonical)
        #expect(IPAddress(canonical) == address)
    }

    @Test("A URL's host is an IPv6 address → read only with brackets in the right place; loopback hosts are recognised")
    func hosts() {
        #expect(IPAddress(urlHost: "127.0.0.1") == IPAddress("127.0.0.1"))
        #expect(IPAddress(urlHost: "[::1]") == IPAddress("::1"))
        for host in ["localhost", "127.0.0.2", "[::1]", "[::ffff:127.0.0.1]"] {
            #expect(IPAddress.isLoopback(urlHost: host), "\(host)")
        }
        for host in ["localhost.example", "127.0.0.1.example", "127.1", "0177.0.0.1", "[::2]", "::1", ""] {
            #expect(!IPAddress.isLoopback(urlHost: host), "\(host)")
        }
        for host in ["::1", "[127.0.0.1]", "[::1", "::1]", "[]", "[[::1]]", "", "localhost"] {
            #expect(IPAddress(urlHost: host) == nil, "\(host)")
        }
    }

    @Test("A loopback address → recognised in IPv4 and IPv6; a limit counts an IPv6 client by its /64")
    func loopback() {
        for text in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            #expect(IPAddress(text)?.isLoopback == true, "\(text)")
        }
        for text in ["128.0.0.1", "126.255.255.255", "::", "::2", "1::1", "64:ff9b::7f00:1"] {
            #expect(IPAddress(text)?.isLoopback == false, "\(text)")
        }
        #expect(IPAddress("2001:db8::1")?.limitKey == IPAddress("2001:db8::ffff")?.limitKey)
        #expect(IPAddress("2001:db8:0:1::1")?.limitKey != IPAddress("2001:db8::1")?.limitKey)
        #expect(IPAddress("10.0.0.1")?.limitKey != IPAddress("10.0.0.2")?.limitKey)
    }

    @Test(
        "Text that is not a range of IP addresses → `IPNetwork` is nil",
        arguments: [
            "", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/+8", "10.0.0.0/08", "10.0.0.0/8/8", "10.0.0.1/8",
            "10.0.0", "x/8", "::/129", "::1/127", "fe80::1%eth0", "::ffff:10.0.0.0/8", "::ffff:0:0/95",
        ])
    func notRange(_ text: String) { #expect(IPNetwork(text) == nil) }

    @Test(
        "A range of IP addresses → contains exactly its own addresses",
        arguments: [
            ("10.0.0.0/8", "10.0.0.0/8", ["10.0.0.0", "10.255.255.255"], ["9.255.255.255", "11.0.0.0", "::a00:0"]),
            ("10.1.2.3", "10.1.2.3", ["10.1.2.3", "::ffff:10.1.2.3"], ["10.1.2.2", "10.1.2.4"]),
            ("::ffff:10.0.0.0/104", "10.0.0.0/8", ["10.9.9.9"], ["11.0.0.0"]),
            ("0.0.0.0/0", "0.0.0.0/0", ["0.0.0.0", "255.255.255.255"], ["::", "::1", "2001:db8::1"]),
            ("::/0", "::/0", ["::", "2001:db8::1", "ffff::ffff"], ["10.0.0.1"]),
            ("2001:db8::/33", "2001:db8::/33", ["2001:db8:7fff::1"], ["2001:db8:8000::1"]),
            ("fd00::/64", "fd00::/64", ["fd00::ffff:ffff:ffff:ffff"], ["fd00:0:0:1::"]),
            ("::1", "::1", ["::1"], ["::", "::2", "1::1"]),
        ])
    func range(_ text: String, _ canonical: String, _ inside: [String], _ outside: [String]) throws {
        let network = try #require(IPNetwork(text))
        #expect(network.description == canonical)
        #expect(network.isEverything == canonical.hasSuffix("/0"))
        for address in inside { #expect(network.contains(try #require(IPAddress(address))), "\(address)") }
        for address in outside { #expect(!network.contains(try #require(IPAddress(address))), "\(address)") }
    }

    @Test(
        "A private, local, documentation or multicast address, alone or inside another address → not public (SEC-74)",
        arguments: [
            "0.0.0.0", "0.255.255.255", "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.127.255.255", "127.0.0.1",
            "127.255.255.255", "169.254.0.0", "169.254.255.255", "172.16.0.0", "172.31.255.255", "192.0.0.0",
            "192.0.0.255", "192.0.2.1", "192.88.99.1", "192.168.0.0", "192.168.255.255", "198.18.0.0", "198.19.255.255",
            "198.51.100.7", "203.0.113.9", "224.0.0.0", "239.255.255.255", "240.0.0.0", "255.255.255.255",
            // Addresses outside 2000::/3, and reserved ranges inside it.
            "::", "::1", "::8.8.8.8", "::ffff:0:808:808", "100::1", "100:0:0:1::1", "1fff:ffff::1", "2001::1",
            "2001:1ff:ffff::1", "2001:db8::1", "2001:db8:ffff::1", "3fff::1", "3fff:fff::1", "4000::1", "5f00::1",
            "fc00::1", "fdff::1", "fe80::1", "febf::1", "fec0::1", "feff::1", "ff02::1",
            // IPv6 addresses that contain an IPv4 address (mapped, 6to4, Teredo and NAT64). Some of the IPv4 addresses are
            // public.
            "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "2002:7f00:1::", "2002:808:808::1",
            "2001:0:808:808::1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b::a83f:8110", "64:ff9b::",
            "64:ff9b:0:1::808:808", "64:ff9b:1::", "64:ff9b:1::1", "64:ff9b:1::a9fe:a9fe", "64:ff9b:1::a83f:8110",
            // The IPv4 address 10.1.2.3 behind a NAT64 prefix of 48, 56 or 64 bits, followed by a public address.
            "64:ff9b:1:a01:2:300::", "64:ff9b:1:a:1:203::", "64:ff9b:1:0:a:102:300:0", "64:ff9b:1:a01:2:300:808:808",
            "64:ff9b:1:a:1:203:808:808", "64:ff9b:1:0:a:102:808:808",
        ])
    func notPublic(_ text: String) throws {
        #expect(!(try #require(IPAddress(text)).isPublic))
    }

    @Test(
        "A cloud's metadata service → not public, although the registries list its address as public (SEC-74)",
        arguments: [
            "169.254.169.254", "169.254.170.2", "169.254.170.23", "169.254.0.23", "169.254.42.42", "168.63.129.16",
            "100.100.100.200", "192.0.0.192", "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "fd00:42::42",
            "fe80::a9fe:a9fe", "::ffff:168.63.129.16",
        ])
    func metadata(_ text: String) throws {
        #expect(!(try #require(IPAddress(text)).isPublic))
    }

    @Test(
        "A public address next to a reserved range → public",
        arguments: [
            "1.0.0.0", "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0",
            "126.255.255.255", "128.0.0.0", "168.63.129.15", "168.63.129.17", "169.253.255.255", "169.255.0.0",
            "172.15.255.255", "172.32.0.0", "191.255.255.255", "192.0.1.0", "192.0.3.0", "192.88.98.255",
            "192.88.100.0",
            "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "198.51.99.255", "198.51.101.0",
            "203.0.112.255", "203.0.114.0", "223.255.255.255", "2000::1", "2001:200::1", "2001:db7:ffff::1",
            "2001:db9::", "2003::1", "2606:4700::1111", "2a00:1450::", "3ffe:ffff::1", "3fff:1000::",
            "::ffff:8.8.8.8", "64:ff9b::808:808", "64:ff9b:1::808:808", "64:ff9b:1:808:8:800::",
            "64:ff9b:1:8:8:808::", "64:ff9b:1:0:8:808:800:0",
        ])
    func isPublic(_ text: String) throws {
        #expect(try #require(IPAddress(text)).isPublic)
    }

    @Test(
        "A private, shared, unique local or loopback address → counts as own network; a public, link-local or metadata one → not",
        arguments: [
            ("10.1.2.3", true), ("172.31.0.1", true), ("192.168.1.1", true), ("100.64.0.1", true), ("127.0.0.1", true),
            ("::1", true), ("fd12:3456::1", true), ("::ffff:10.0.0.1", true), ("172.32.0.1", false), ("8.8.8.8", false),
            ("169.254.169.254", false), ("fe80::1", false), ("224.0.0.1", false), ("2606:4700::1111", false),
            ("64:ff9b::a00:1", false), ("0.0.0.0", false),
        ])
    func isOfOwnNetwork(_ text: String, _ expected: Bool) throws {
        #expect(try #require(IPAddress(text)).isOfOwnNetwork == expected)
    }

    @Test(
        "An address policy → allows exactly its addresses; an unknown address → allowed only by the policy `any` (SEC-74)"
    )
    func policies() throws {
        let loopback = try #require(IPAddress("127.0.0.1"))
        let inside = try #require(IPAddress("10.0.0.1"))
        let outside = try #require(IPAddress("1.1.1.1"))
        let cases: [IPAddress?] = [nil, loopback, inside, outside]
        #expect(cases.map { AddressPolicy.publicOnly.allows($0) } == [false, false, false, true])
        #expect(cases.map { AddressPolicy.loopbackOnly.allows($0) } == [false, true, false, false])
        #expect(cases.map { AddressPolicy.any.allows($0) } == [true, true, true, true])
    }
}
