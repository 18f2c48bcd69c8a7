import Broker
import BrokerRelay
import BrokerWire
import HTTPTypes
import NIOCore
import Testing

@Suite("The bytes that the relay sends and receives", .timeLimit(.minutes(2)))
struct RelayWireTests {
    @Test("An app makes a GET call through the relay → the upstream gets exactly the expected bytes")
    func get() async throws {
        try await ScriptedUpstream.run(answeringOK) { upstream in
            try await RelayFixture.run(at: upstream.url + "/base") { (fixture) async throws in
                let response = try await fixture.call(
                    .get, "/v1/items?page=2",
                    headers: [.accept: "application/json", .cookie: "a=b", .userAgent: "app/1"])
                #expect(response.status == .ok)
                #expect(try await response.body.text() == "ok")
                #expect(response.contentLength == 2)
            }
            let request = try #require(upstream.received.first)
            #expect(
                request.lines == [
                    "GET /base/v1/items?page=2 HTTP/1.1", "Host: 127.0.0.1:\(upstream.port)",
                    "Accept: application/json",
                    "User-Agent: app/1", "Authorization: Bearer token-0", "X-Request-Id: req-1",
                ])
        }
    }

    @Test(
        "An app's call has a path and a query → the upstream gets the canonical path and the encoded query",
        arguments: [
            ("/a?filter[name]=a%20b", "/a?filter%5Bname%5D=a%20b"), ("/a?q=%41%2e%2F", "/a?q=%41%2e%2F"),
            ("/a?", "/a?"), ("/?x", "/?x"), ("/a%20b/caf%c3%a9?é=1", "/a%20b/caf%C3%A9?%C3%A9=1"),
            ("/a:b/c@d?x=http://y/?z", "/a:b/c@d?x=http://y/?z"), ("/a?x=%", "/a?x=%25"), ("/a/?b+c;d", "/a/?b+c;d"),
            ("/100%25?x=100%25", "/100%25?x=100%25"), ("/!$&'()*+,=?!$&'()*+,;=", "/!$&'()*+,=?!$&'()*+,;="),
            ("/%3Fx?%23", "/%3Fx?%23"), ("/~a/%7Eb", "/~a/~b"), ("", "/"), ("?x=1", "/?x=1"),
        ])
    func target(raw: String, sent: String) async throws {
        try await ScriptedUpstream.run(answeringOK) { upstream in
            try await RelayFixture.run(at: upstream.url) { (fixture) async throws in
                _ = try await fixture.call(.get, raw)
            }
            #expect(upstream.received.map(\.target) == [sent])
        }
    }

    @Test(
        "An app forges fields, or names fields in Connection → the upstream gets only the broker's fields (SEC-75, SEC-76)"
    )
    func forged() async throws {
        try await ScriptedUpstream.run(answeringOK) { upstream in
            try await RelayFixture.run(at: upstream.url) { (fixture) async throws in
                var headers: HTTPFields = [
                    .authorization: "Bearer mine", .cookie: "__Host-coatcheck=x", .connection: "Authorization, Host",
                    .transferEncoding: "chunked", .contentLength: "7", .te: "trailers", .expect: "100-continue",
                ]
                headers[try #require(HTTPField.Name("X_Auth_Subject"))] = "root"
                headers[try #require(HTTPField.Name("X-Forwarded-For"))] = "1.1.1.1"
                _ = try await fixture.call(.get, "/x", headers: headers)
            }
            let request = try #require(upstream.received.first)
            #expect(request.names == ["authorization", "host", "x-request-id"])
            #expect(request.values("authorization") == ["Bearer token-0"])
        }
    }

    @Test(
        "An access token consists of any visible ASCII characters → sent byte for byte",
        arguments: ["00D5!AQ8", "Atza|x", "v^1.1#i^1", "2/12:00", #"a,b;c"d\e{f}g%h$i"#])
    func visible(_ text: String) async throws {
        try await ScriptedUpstream.run(answeringOK) { upstream in
            try await RelayFixture.run(at: upstream.url) { (fixture) async throws in
                _ = try await fixture.relay.call(
                    try fixture.request(.get, "/x"), session: fixture.session, signIns: fixture.signIns,
                    token: { (_, _, _) throws(BrokerProblem) in AccessToken(Secret(text)) })
            }
            #expect(upstream.received.first?.values("authorization") == ["Bearer " + text])
        }
    }

    @Test(
        "A Zephr session makes a call → Zephr's session id is sent as Zephr's cookie, and the app's cookie is removed")
    func zephr() async throws {
        try await ScriptedUpstream.run(answeringOK) { upstream in
            try await RelayFixture.run(at: upstream.url, credential: .zephrCookie) { (fixture) async throws in
                _ = try await fixture.relay.call(
                    try fixture.request(.get, "/x", headers: [.cookie: "blaize_session=mine"]),
                    session: fixture.session, signIns: fixture.signIns,
                    token: { (_, _, _) throws(BrokerProblem) in
                        AccessToken(Secret("zephr-1"), .zephrCookie)
                    })
            }
            #expect(upstream.received.first?.values("cookie") == ["blaize_session=zephr-1"])
            #expect(upstream.received.first?.values("authorization") == [])
        }
    }

    @Test(
        "A relayed body's length is known → sent with this length; unknown → sent in chunks; no body → no chunks (SEC-79)"
    )
    func bodies() async throws {
        try await ScriptedUpstream.run(answeringOK) { upstream in
            try await RelayFixture.run(at: upstream.url) { (fixture) async throws in
                let text = ByteBuffer(string: "hello")
                let source = ChunkSource(chunk: text, count: 3)
                _ = try await fixture.call(.post, "/1", headers: [.contentType: "text/plain"], body: .whole(text))
                _ = try await fixture.call(.put, "/2", body: .stream(UpstreamRequest.Stream(source), length: 15))
                _ = try await fixture.call(.patch, "/3", body: .stream(UpstreamRequest.Stream(source), length: nil))
                _ = try await fixture.call(.post, "/4")
                _ = try await fixture.call(.delete, "/5")
            }
            let all = upstream.received
            #expect(all.map(\.bodySize) == [5, 15, 15, 0, 0])
            #expect(all.map { $0.values("content-length") } == [["5"], ["15"], [], ["0"], []])
            #expect(all.map { $0.values("transfer-encoding") } == [[], [], ["chunked"], [], []])
            #expect(all.map { String(buffer: $0.body) }.prefix(3) == ["hello", "hellohellohello", "hellohellohello"])
            #expect(upstream.opened == 1, "one connection, kept")
        }
    }

    @Test(
        "An upstream answers with a redirect → passed on without being followed (SEC-74)",
        arguments: [301, 302, 303, 307, 308])
    func redirect(code: Int) async throws {
        try await ScriptedUpstream.run({ connection in
            while try await connection.request() != nil {
                try await connection.answer("\(code) Moved", fields: ["Location: /elsewhere"], body: "")
            }
        }) { upstream in
            try await RelayFixture.run(at: upstream.url) { (fixture) async throws in
                let response = try await fixture.call(.get, "/x")
                #expect(response.status.code == code)
                #expect(response.headers[.location] == "/v1/relay/api/elsewhere")
            }
            #expect(upstream.received.count == 1)
        }
    }

    @Test("An upstream's gzip body → passed on byte for byte")
    func gzip() async throws {
        let bytes: [UInt8] = [0x1F, 0x8B, 0x08, 0x00, 0xFF, 0x00, 0x0D, 0x0A]
        try await ScriptedUpstream.run({ connection in
            while try await connection.request() != nil {
                try await connection.write("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 8\r\n\r\n")
                try await connection.write(ByteBuffer(bytes: bytes))
            }
        }) { upstream in
            try await RelayFixture.run(at: upstream.url) { (fixture) async throws in
                let response = try await fixture.call(.get, "/x", headers: [.acceptEncoding: "gzip"])
                guard case .buffered(let body) = response.body else { throw Unexpected(status: 0) }
                #expect(Array(body.readableBytesView) == bytes)
                #expect(response.headers[.contentEncoding] == "gzip")
            }
            #expect(upstream.received.first?.values("accept-encoding") == ["gzip"])
        }
    }

    @Test("An upstream's answer to HEAD, or with 204 or 304 → has no body; after 204 or 304, its connection is kept")
    func bodiless() async throws {
        try await ScriptedUpstream.run({ connection in
            while let request = try await connection.request() {
                switch request.target {
                case "/204": try await connection.write("HTTP/1.1 204 No Content\r\n\r\n")
                case "/304": try await connection.write("HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n")
                case "/0": try await connection.answer(body: "")
                default: try await connection.write("HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n")
                }
            }
        }) { upstream in
            try await RelayFixture.run(at: upstream.url) { (fixture) async throws in
                let head = try await fixture.call(.head, "/head")
                #expect(head.contentLength == 1234)
                let noContent = try await fixture.call(.get, "/204")
                let notModified = try await fixture.call(.get, "/304", headers: [.ifNoneMatch: "\"x\""])
                let empty = try await fixture.call(.get, "/0")
                #expect(notModified.headers[.eTag] == "\"x\"")
                #expect([noContent.status.code, notModified.status.code, empty.contentLength] == [204, 304, 0])
                for response in [head, noContent, notModified, empty] {
                    guard case .none = response.body else { throw Unexpected(status: response.status.code) }
                }
            }
            #expect(upstream.opened == 2)
        }
    }

    @Test("An upstream's answer is chunked → streamed, without its trailers")
    func chunked() async throws {
        try await ScriptedUpstream.run({ connection in
            while try await connection.request() != nil {
                try await connection.write(
                    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Auth-Subject\r\n\r\n"
                        + "2\r\nab\r\n1\r\nc\r\n"
                        + "0\r\nX-Auth-Subject: root\r\n\r\n")
            }
        }) { upstream in
            try await RelayFixture.run(at: upstream.url) { (fixture) async throws in
                let response = try await fixture.call(.get, "/x")
                #expect(response.contentLength == nil)
                #expect(try await response.body.text() == "abc")
                #expect(!response.headers.contains { $0.name.canonicalName.contains("auth") })
            }
        }
    }
}
