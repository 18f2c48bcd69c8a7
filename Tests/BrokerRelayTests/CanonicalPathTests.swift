import BrokerRelay
import Testing

@Suite("Canonical paths (SEC-73)", .timeLimit(.minutes(2)))
struct CanonicalPathTests {
    /// Paths that two servers could read differently, each with its fault.
    static let tricks: [(String, CanonicalPath.Fault)] = [
        ("", .notAbsolute), ("v1", .notAbsolute), ("http://evil.example/", .notAbsolute), ("*", .notAbsolute),
        ("//", .emptySegment), ("//evil.example/v1", .emptySegment), ("/a//b", .emptySegment),
        ("/a//%41", .emptySegment), ("/%41//", .emptySegment),
        ("/.", .dotSegment), ("/..", .dotSegment), ("/../", .dotSegment), ("/a/../b", .dotSegment),
        ("/a/./b", .dotSegment), ("/a/..", .dotSegment), ("/%2e", .dotSegment), ("/%2e%2e/", .dotSegment),
        ("/a/%2E./b", .dotSegment), ("/a/.%2e", .dotSegment), ("/a/..%20/b", .dotSegment), ("/%20", .dotSegment),
        ("/...", .dotSegment), ("/%2e%2e%2e", .dotSegment), ("/a/..../b", .dotSegment),
        ("/a%2fb", .forbiddenByte), ("/a%2F..%2fb", .forbiddenByte), ("/a%5cb", .forbiddenByte),
        ("/a\\b", .forbiddenByte), ("/..\\b", .forbiddenByte), ("/..%5Cb", .forbiddenByte),
        ("/a;b", .forbiddenByte), ("/..;/b", .forbiddenByte), ("/a%3bb", .forbiddenByte),
        ("/a%00", .forbiddenByte), ("/a%0d%0aX", .forbiddenByte), ("/a%7f", .forbiddenByte),
        ("/a%23b", .forbiddenByte), ("/a#b", .forbiddenByte), ("/a?b", .forbiddenByte), ("/a b", .forbiddenByte),
        ("/a\tb", .forbiddenByte), ("/a\u{0}b", .forbiddenByte), ("/caf\u{E9}", .forbiddenByte),
        ("/a|b", .forbiddenByte), ("/a<b", .forbiddenByte), ("/a\"b", .forbiddenByte), ("/a{b}", .forbiddenByte),
        ("/[a]", .forbiddenByte), ("/a^b", .forbiddenByte), ("/a`b", .forbiddenByte), ("/%41|", .forbiddenByte),
        ("/%", .badPercent), ("/%4", .badPercent), ("/%zz", .badPercent), ("/%4g", .badPercent), ("/%%41", .badPercent),
        ("/%u002e", .badPercent), ("/a%2", .badPercent), ("/%+1", .badPercent),
        ("/%252e%252e/", .doubleEncoding), ("/%25252e", .doubleEncoding), ("/%252f", .doubleEncoding),
        ("/%255c", .doubleEncoding), ("/%2500", .doubleEncoding), ("/%25%32%65", .doubleEncoding),
        ("/%2541", .doubleEncoding),
        ("/%c0%ae%c0%ae/", .notUTF8), ("/%c0%af", .notUTF8), ("/%e0%80%af", .notUTF8), ("/%f0%80%80%ae", .notUTF8),
        ("/%ff", .notUTF8), ("/%c3", .notUTF8), ("/%ed%a0%80", .notUTF8), ("/%f4%90%80%80", .notUTF8),
        ("/%c3/%a9", .notUTF8),
    ]

    @Test(
        "Two servers could read a path differently → refused, and the error names the kind of fault", arguments: tricks)
    func refused(raw: String, fault: CanonicalPath.Fault) {
        #expect(throws: fault) { try CanonicalPath(raw[...]) }
    }

    @Test(
        "A path in any spelling → its one canonical spelling",
        arguments: [
            ("/", "/"), ("/a", "/a"), ("/a/", "/a/"), ("/A/b~c_d-e.f", "/A/b~c_d-e.f"), ("/%41%7e%2D%5f", "/A~-_"),
            ("/caf%c3%a9", "/caf%C3%A9"), ("/a%20b", "/a%20b"), ("/a:b@c!$&'()*+,=", "/a:b@c!$&'()*+,="),
            ("/..a", "/..a"), ("/a..", "/a.."), ("/.well-known", "/.well-known"),
            ("/100%25", "/100%25"), ("/100%25x", "/100%25x"), ("/%e2%82%ac/x", "/%E2%82%AC/x"), ("/a%3f", "/a%3F"),
            ("/%2e%2ea%2e", "/..a."), ("/%41/", "/A/"),
        ])
    func normalised(raw: String, text: String) throws {
        let path = try CanonicalPath(raw[...])
        #expect(path.text == text)
        #expect(try CanonicalPath(path.text[...]) == path, "canonical is a fixed point")
    }

    @Test("Any two bytes after a slash, plain or percent-encoded → no crash (SEC-106)")
    func noTraps() {
        for first in UInt8.min...255 {
            for second in UInt8.min...255 {
                let raw = "/" + String(decoding: [first, second], as: UTF8.self)
                let encoded = "/%" + String(first, radix: 16) + "%" + String(second, radix: 16)
                for text in [raw, encoded] {
                    guard let path = try? CanonicalPath(text[...]) else { continue }
                    #expect(path.text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != 0x5C && $0 != 0x3B })
                }
            }
        }
    }

    @Test(
        "An app's query → sent to the upstream unchanged, except that each character that RFC 3986 forbids is percent-encoded",
        arguments: [
            ("filter[name]=a%20b", "filter%5Bname%5D=a%20b"), ("a=1&b=2", "a=1&b=2"), ("q=%", "q=%25"),
            ("q=%4", "q=%254"), ("q=%zz", "q=%25zz"), ("q=%41%2e", "q=%41%2e"), ("q=é", "q=%C3%A9"), ("", ""),
            ("a|b", "a%7Cb"), ("u=http://x/?y;z", "u=http://x/?y;z"), ("a=\"<>\"", "a=%22%3C%3E%22"), ("a+b", "a+b"),
        ])
    func query(raw: String, text: String) throws {
        #expect(try #require(CanonicalQuery(raw[...])).text == text)
    }

    @Test(
        "A query with a fragment, a space or a control byte → refused",
        arguments: ["a#b", "a b", "a\r\nb", "a\u{0}", "\u{7F}"])
    func badQuery(raw: String) { #expect(CanonicalQuery(raw[...]) == nil) }

    @Test(
        "A request's target is a relay path → split into the upstream's name, the path and the query, without decoding",
        arguments: [
            ("/v1/relay/api", "api", "/", nil), ("/v1/relay/api/", "api", "/", nil),
            ("/v1/relay/api/a%2fb?x=1?2", "api", "/a%2fb", "x=1?2"), ("/v1/relay/api?x", "api", "/", "x"),
            ("/v1/relay/api//a", "api", "//a", nil), ("/v1/relay//a", "", "/a", nil),
            ("/v1/relay/..%2fb/a", "..%2fb", "/a", nil), ("/v1/relay/api?/a", "api", "/", "/a"),
        ] as [(String, String, String, String?)])
    func target(raw: String, upstream: String, path: String, query: String?) throws {
        let target = try #require(RelayTarget(raw))
        #expect(target.upstream == upstream)
        #expect(target.path == path[...])
        #expect(target.query.map(String.init) == query)
    }

    @Test(
        "A request's target belongs to another route → not read as a relay path",
        arguments: ["", "/v1/relay", "/v1/relays/api", "/V1/relay/api/x"])
    func otherTarget(raw: String) { #expect(RelayTarget(raw) == nil) }
}
