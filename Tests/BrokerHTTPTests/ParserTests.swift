import Broker
import BrokerTestSupport
import BrokerWire
import HTTPTypes
import Testing

@testable import BrokerHTTP

@Suite("Cookies, credentials and media types", .timeLimit(.minutes(2)))
struct ParserTests {
    @Test(
        "A Cookie field tries to plant a session → only the cookie with the broker's exact name is read (SEC-38)",
        arguments: [
            ("\u{2000}__Host-coatcheck=EVIL; __Host-coatcheck=GOOD", "GOOD"),
            ("__host-coatcheck=EVIL", nil),
            ("$Version=1; __Host-coatcheck=\"GOOD\"", "GOOD"),
            ("__Host-coatcheck-login=EVIL", nil),
            ("x__Host-coatcheck=EVIL", nil),
            ("=__Host-coatcheck=EVIL", nil),
            ("__Host-coatcheck", nil),
            ("__Host-coatcheck =EVIL", nil),
            ("\u{A0}__Host-coatcheck=EVIL", nil),
            ("\u{B}__Host-coatcheck=EVIL", nil),
            ("a=b,__Host-coatcheck=EVIL", nil),
            (" \t__Host-coatcheck=GOOD\t ;other=1", "GOOD"),
            ("other=1;__Host-coatcheck=GOOD=x", "GOOD=x"),
            ("__Host-coatcheck=", ""),
        ] as [(String, String?)])
    func cookies(header: String, expected: String?) {
        #expect(CookieReader.value(of: "__Host-coatcheck", in: [header]) == (expected.map { .one($0) } ?? .absent))
    }

    @Test(
        "A cookie's value has quotes around it → a pair of quotes is removed, inner quotes stay, half a pair is refused (SEC-38)",
        arguments: [
            ("$Version=\"1\"; c=\"v\";$Path=\"/\";$Domain=\"h\"", .one("v")), ("c=\"v\"; $Version=1", .one("v")),
            ("c=\"a=b\"", .one("a=b")), ("c=\"\"", .one("")), ("c=\"\"v\"\"", .one("\"v\"")), ("c=a\"b", .one("a\"b")),
            ("c=\"a\\\"b\"", .one("a\\\"b")), ("\"c=v\"", .absent), ("\"c\"=v", .absent), ("x=\"; c=v\"", .halfQuoted),
            ("c=\"a; b\"", .halfQuoted), ("c=\"", .halfQuoted), ("c=\"v", .halfQuoted), ("c=v\"", .halfQuoted),
            ("c= \"v\"", .halfQuoted), ("c=\"v\"; c=v", .several), ("c=\"v\"; c=\"v\"", .several),
            ("c=\"v; c=v", .several), ("c='v'", .one("'v'")),
        ] as [(String, CookieReader.Result)])
    func quotes(field: String, result: CookieReader.Result) {
        #expect(CookieReader.value(of: "c", in: [field]) == result)
        #expect(CookieReader.value(of: "c", in: ["a=\"", field, "b=\""]) == result)
    }

    @Test("A cookie has two values, in one field or in two → refused (SEC-38)")
    func twice() {
        #expect(CookieReader.value(of: "a", in: ["a=1; a=2"]) == .several)
        #expect(CookieReader.value(of: "a", in: ["a=1", "a=1"]) == .several)
    }

    @Test(
        "An `Authorization` field lacks a valid credential → it counts as no credential (SEC-43)",
        arguments: [
            "", "Bearer", "Bearer ", "Bearer a b", "Bearer \u{E9}", "Digest x", "Basic", "Basic !!!!", "Basic YQ==",
            "Basic YTpi=", "Basic YTp", "Basic " + String(repeating: "A", count: 4000),
            "Bearer " + String(repeating: "a", count: 600),
        ])
    func junkAuthorization(value: String) {
        guard case .other = Authorization(value) else {
            Issue.record("\(value) was accepted")
            return
        }
    }

    @Test("`Bearer` or `Basic` in any letter case → accepted")
    func authorization() {
        guard case .bearer(let token) = Authorization("bEARER abc") else {
            Issue.record("no bearer")
            return
        }
        #expect(token.reveal() == "abc")
        guard case .basic(let name, let secret) = Authorization("basic b3JkZXJzOnAlM0F3") else {
            Issue.record("no basic")
            return
        }
        #expect(name == "orders")
        #expect(secret.reveal() == "p:w")
    }

    @Test(
        "A Content-Type has the media type `application/json`, in any letter case → JSON; another media type → not JSON (SEC-45)",
        arguments: [
            ("text/plain", false), ("application/json,text/plain", false), ("text/plain; application/json", false),
            ("text/plain;a=application/json", false), ("application/json, application/json;charset=utf-8", false),
            ("application/json text/plain", false), ("application /json", false), ("application/jsonx", false),
            ("\"application/json\"", false), ("", false), (";", false), (" ; application/json", false),
            ("application/json\u{A0};x", false), ("application/json", true), ("Application/JSON ; charset=UTF-8", true),
            ("application/json;charset=\"utf-8\"", true), ("application/json; charset=latin1", true),
            ("application/json;charset=utf-8;x=y", true), ("application/json;", true), ("application/json; ;;", true),
            (" application/json\t", true), ("application/json;charset=utf-8; q=1, text/plain", true),
            ("application/json; charset=\"\u{E9}", true),
        ])
    func mediaTypes(value: String, taken: Bool) {
        #expect(MediaType.json.matches(value) == taken)
    }

    @Test("A hostile field is cut or one of its bytes is changed → the parsers do not crash (SEC-106)")
    func noTraps() {
        let seeds = [
            "Basic b3JkZXJzOnAlM0F3", "__Host-coatcheck=a; b=\"c\"; ;;=", "[::ffff:1.2.3.4]:80, 10.0.0.1:x, ,",
            "application/json; charset=utf-8", "http://[::1]:99999/x?y#z",
        ]
        for seed in seeds {
            for length in 0...seed.utf8.count {
                for byte: UInt8 in [0, 0x20, 0x25, 0x3A, 0x5B, 0x5D, 0x7F, 0xC3, 0xFF] {
                    var bytes = Array(seed.utf8.prefix(length))
                    bytes.append(byte)
                    bytes += seed.utf8.dropFirst(length + 1)
                    let text = String(decoding: bytes, as: UTF8.self)
                    _ = Authorization(text)
                    _ = CookieReader.value(of: "__Host-coatcheck", in: [text])
                    _ = MediaType.json.matches(text)
                    _ = Authority(text)
                    _ = IPAddress(text)
                    _ = IPNetwork(text)
                    _ = ClientAddress(
                        peer: IPAddress("127.0.0.1"), peerText: "127.0.0.1", forwardedFor: [text],
                        trusted: [IPNetwork("127.0.0.1")].compactMap { $0 })
                }
            }
        }
    }
}

@Suite("Addresses and limits", .timeLimit(.minutes(2)))
struct AddressTests {
    @Test(
        "A request came through several hops → the client's address is the right-most hop that is not a trusted proxy (SEC-104)",
        arguments: [
            ("203.0.113.9", ["127.0.0.1"], "203.0.113.9"),
            ("10.0.0.1", ["127.0.0.1"], "127.0.0.1"),
            ("10.0.0.1", ["198.51.100.7, 10.0.0.2"], "198.51.100.7"),
            ("10.0.0.1", ["6.6.6.6", "198.51.100.7"], "198.51.100.7"),
            ("10.0.0.1", ["198.51.100.7, nonsense, 10.0.0.2"], "10.0.0.2"),
            ("10.0.0.1", [""], "10.0.0.1"),
            ("10.0.0.1", [], "10.0.0.1"),
            ("10.0.0.1", ["198.51.100.7:4711"], "198.51.100.7"),
            ("10.0.0.1", ["[2001:db8::7]:4711"], "2001:db8::7"),
            ("10.0.0.1", ["198.51.100.7:x"], "10.0.0.1"),
            ("10.0.0.1", ["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        ])
    func clientAddress(peer: String, forwardedFor: [String], client: String) {
        let address = ClientAddress(
            peer: IPAddress(peer), peerText: peer, forwardedFor: forwardedFor,
            trusted: [IPNetwork("10.0.0.0/8")].compactMap { $0 })
        #expect(address.text == client)
        #expect(address.address == IPAddress(client))
    }

    @Test(
        "An address makes three calls, its limit for a minute → the fourth is refused; 20 s later → one is served (SEC-119)"
    )
    func buckets() throws {
        let now = TestClock()
        let buckets = TokenBuckets(perMinute: 3) { now.monotonic }
        let one = try #require(IPAddress("1.1.1.1"))
        for _ in 0..<3 { #expect(buckets.take(one) == nil) }
        #expect(buckets.take(one) == .seconds(20))
        #expect(buckets.take(try #require(IPAddress("2.2.2.2"))) == nil)
        now.advance(.seconds(20))
        #expect(buckets.take(one) == nil)
        #expect(buckets.take(one) != nil)
        // An IPv6 client can use every address of its /64, so all of them share one bucket.
        for _ in 0..<3 { _ = buckets.take(try #require(IPAddress("2001:db8::1"))) }
        #expect(buckets.take(try #require(IPAddress("2001:db8::ffff"))) != nil)
    }

    @Test(
        "Requests from very many addresses → the limits' memory stays bounded, and a known address keeps its count (SEC-119)"
    )
    func boundedBuckets() throws {
        let now = TestClock()
        let buckets = TokenBuckets(perMinute: 2, maximumAddresses: 100) { now.monotonic }
        let known = try #require(IPAddress("9.9.9.9"))
        _ = buckets.take(known)
        for index in 0..<5000 { _ = buckets.take(IPAddress(high: 0, low: 0xFFFF_0A00_0000 + UInt64(index))) }
        #expect(buckets.count <= 100)
        #expect(buckets.take(known) == nil)
        now.advance(.seconds(120))
        #expect(buckets.take(IPAddress(high: 1, low: 1)) == nil)
        #expect(buckets.count <= 100)
    }
}
