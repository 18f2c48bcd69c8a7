import Broker
import BrokerRelay
import BrokerTestSupport
import BrokerWire
import HTTPTypes
import NIOCore
import Testing

@Suite("Hostile and broken upstreams (SEC-78, SEC-79, SEC-81)", .timeLimit(.minutes(2)))
struct RelayHostileUpstreamTests {
    @Test(
        "An upstream sends an answer that two parsers could read differently → 502, and its connection is not used again",
        arguments: [
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nHTTP/1.1 200\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc",
            "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nab",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\nabc",
            "HTTP/1.1 200 OK\r\nX-A: a\u{1}b\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nX-A: a\u{0}b\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 200 OK\r\nX-A: a\r b\r\n\r\n",
            "HTTP/1.1 200 OK\r\n X-Folded: a\r\n\r\n", "HTTP/1.1 200 OK\r\nX A: b\r\n\r\n",
            "HTTP/1.1 999 X\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nraw",
            "HTTP/9.9 200 OK\r\n\r\n", "garbage\r\n\r\n", "\r\n\r\n\r\n", "HTTP/1.1 20 OK\r\n\r\n", "",
        ])
    func smuggling(bytes: String) async throws {
        try await ScriptedUpstream.run({ connection in
            guard let request = try await connection.request() else { return }
            if request.target == "/ok" { return try await connection.answer(fields: ["Connection: close"]) }
            try await connection.write(bytes)
        }) { upstream in
            try await RelayFixture.run(at: upstream.url, timeout: .seconds(20)) { (fixture) async throws in
                let problem = try await fixture.problem(.post, "/x")
                #expect(problem.code == .upstreamError)
                #expect(try await fixture.call(.get, "/ok").body.text() == "ok")
            }
            #expect(upstream.opened == 2)
        }
    }

    @Test(
        "An upstream answers with an unknown status and a reason phrase → the status is passed on without the phrase (SEC-78)"
    )
    func reasonPhrase() async throws {
        try await ScriptedUpstream.run({ connection in
            while try await connection.request() != nil { try await connection.answer("299 a\u{1}b") }
        }) { upstream in
            try await RelayFixture.run(at: upstream.url) { (fixture) async throws in
                #expect(try await fixture.call(.get, "/x").status.reasonPhrase == "")
            }
        }
    }

    @Test("An upstream adds a second answer to each answer → each call gets its own answer")
    func unsolicited() async throws {
        try await ScriptedUpstream.run({ connection in
            while let request = try await connection.request() {
                let answer = "HTTP/1.1 200 OK\r\nContent-Length: \(request.target.utf8.count)\r\n\r\n\(request.target)"
                try await connection.write(answer + "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
            }
        }) { upstream in
            try await RelayFixture.run(at: upstream.url) { (fixture) async throws in
                for path in ["/one", "/two", "/three"] {
                    #expect(try await fixture.call(.get, path).body.text() == path)
                }
            }
        }
    }

    @Test("An upstream sends 20 interim answers → they are dropped before the answer; it sends 10,000 → 502")
    func interim() async throws {
        try await ScriptedUpstream.run({ connection in
            while let request = try await connection.request() {
                let count = request.target == "/few" ? 20 : 10_000
                for _ in 0..<count { try await connection.write("HTTP/1.1 103 Early Hints\r\nX-Evil: 1\r\n\r\n") }
                try await connection.answer()
            }
        }) { upstream in
            try await RelayFixture.run(at: upstream.url) { (fixture) async throws in
                for _ in 0..<2 { #expect(try await fixture.call(.get, "/few").body.text() == "ok") }
                #expect(upstream.opened == 1)
                #expect(try await fixture.problem(.get, "/flood").code == .upstreamError)
                #expect(try await fixture.call(.get, "/few").body.text() == "ok")
            }
            #expect(upstream.opened == 2)
        }
    }

    @Test(
        "An upstream sends bytes on an idle connection → the connection is closed",
        arguments: [
            "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", "HTTP/1.1 200 OK\r\nContent-Le", "H", "\r\n",
            "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n",
        ])
    func unasked(_ bytes: String) async throws {
        let (signal, go) = AsyncStream<Never>.makeStream()
        try await ScriptedUpstream.run({ connection in
            while let request = try await connection.request() {
                try await connection.answer(body: request.target)
                if request.target == "/one" {
                    for await _ in signal {}
                    try await connection.write(bytes)
                    return try await connection.waitForClose()
                }
            }
        }) { upstream in
            try await RelayFixture.run(at: upstream.url) { (fixture) async throws in
                #expect(try await fixture.call(.get, "/one").body.text() == "/one")
                go.finish()
                #expect(try await eventually { upstream.closed == 1 })
                #expect(try await fixture.call(.post, "/two").body.text() == "/two")
            }
            #expect(upstream.opened == 2)
        }
    }

    @Test(
        "An upstream sends half of an answer without a request, and the rest at the next call → the call never gets this answer"
    )
    func halfUnasked() async throws {
        let evil = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
        try await ScriptedUpstream.run({ connection in
            var owed = ""
            while let request = try await connection.request() {
                if !owed.isEmpty { try await connection.write(owed) }
                let cut = Int(request.target.dropFirst()) ?? 0
                let answer = "HTTP/1.1 200 OK\r\nContent-Length: \(request.target.utf8.count)\r\n\r\n\(request.target)"
                owed = String(decoding: evil.utf8.dropFirst(cut), as: UTF8.self)
                try await connection.write(answer + String(decoding: evil.utf8.prefix(cut), as: UTF8.self))
            }
        }) { upstream in
            try await RelayFixture.run(at: upstream.url) { (fixture) async throws in
                for cut in 1..<evil.utf8.count {
                    do {
                        #expect(try await fixture.call(.get, "/\(cut)").body.text() == "/\(cut)")
                    } catch let problem as BrokerProblem {
                        #expect(problem.code == .upstreamError)
                    }
                }
            }
        }
    }

    @Test(
        "An upstream ends an answer of unknown length by closing the connection, or only its own side → the answer is complete",
        arguments: [true, false])
    func untilClose(isHalf: Bool) async throws {
        try await ScriptedUpstream.run({ connection in
            _ = try await connection.request()
            try await connection.write("HTTP/1.1 200 OK\r\n\r\n")
            for _ in 0..<10 { try await connection.write(String(repeating: "a", count: 10_000)) }
            if isHalf {
                try await connection.closeOutput()
                try await connection.waitForClose()
            }
        }) { upstream in
            try await RelayFixture.run(at: upstream.url) { (fixture) async throws in
                for _ in 0..<2 { #expect(try await fixture.call(.get, "/x").body.text().utf8.count == 100_000) }
                #expect(try await eventually { upstream.closed == 2 })
            }
            #expect(upstream.opened == 2)
        }
    }

    private static func fields(_ count: Int, of size: Int) -> String {
        (0..<count).map { index in "X-\(index): \(String(repeating: "v", count: size))\r\n" }.joined()
    }

    @Test(
        "An upstream's head exceeds 16 KiB a field, 64 KiB or 128 fields → 502, and its connection is not used again (SEC-81)",
        arguments: [
            "HTTP/1.1 200 OK\r\n" + fields(1, of: 16 * 1024 + 1) + "\r\n",
            "HTTP/1.1 200 OK\r\n" + String(repeating: "x", count: 16 * 1024 + 1) + ": v\r\n\r\n",
            "HTTP/1.1 200 OK\r\n" + fields(129, of: 1) + "\r\n", "HTTP/1.1 200 OK\r\n" + fields(6, of: 12_000) + "\r\n",
            // The following heads are also unfinished, so the relay must refuse them before their end.
            "HTTP/1.1 200 OK\r\n" + fields(6, of: 12_000), "HTTP/1.1 200 OK\r\nX: " + fields(1, of: 17_000).dropLast(2),
            "HTTP/1.1 103 Early Hints\r\n" + fields(6, of: 12_000),
        ])
    func largeHead(bytes: String) async throws {
        try await ScriptedUpstream.run({ connection in
            guard let request = try await connection.request() else { return }
            if request.target == "/ok" { return try await connection.answer(fields: ["Connection: close"]) }
            try await connection.write(bytes)
            try await connection.waitForClose()
        }) { upstream in
            try await RelayFixture.run(at: upstream.url, timeout: .seconds(20)) { (fixture) async throws in
                #expect(try await fixture.problem(.get, "/x").code == .upstreamError)
                #expect(try await fixture.call(.get, "/ok").body.text() == "ok")
            }
            #expect(upstream.opened == 2)
        }
    }

    @Test("An upstream's head has 120 long fields, or four fields of 15,000 bytes → accepted")
    func ordinaryHead() async throws {
        try await ScriptedUpstream.run({ connection in
            while let request = try await connection.request() {
                let fields = request.target == "/many" ? Self.fields(120, of: 400) : Self.fields(4, of: 15_000)
                try await connection.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\(fields)\r\nok")
            }
        }) { upstream in
            try await RelayFixture.run(at: upstream.url) { (fixture) async throws in
                for (target, count) in [("/many", 120), ("/long", 4)] {
                    let response = try await fixture.call(.get, target)
                    #expect(response.headers.count { $0.name.canonicalName.hasPrefix("x-") } == count)
                }
            }
            #expect(upstream.opened == 1)
        }
    }

    @Test(
        "An upstream closes the connection after the head, before any byte of the body → 502",
        arguments: [
            "Transfer-Encoding: chunked\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n5\r\n",
            "Transfer-Encoding: chunked\r\n\r\nzz\r\nabc", "Content-Length: 1000000\r\n\r\n",
            "Content-Length: 9223372036854775807\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
        ])
    func brokenOffAtOnce(head: String) async throws {
        try await ScriptedUpstream.run({ connection in
            _ = try await connection.request()
            try await connection.write("HTTP/1.1 200 OK\r\n" + head)
        }) { upstream in
            try await RelayFixture.run(at: upstream.url) { (fixture) async throws in
                #expect(try await fixture.problem(.get, "/x").code == .upstreamError)
            }
        }
    }

    @Test("An upstream sends the head and delays the body → the app gets the head at once")
    func headAlone() async throws {
        let (signal, go) = AsyncStream<Never>.makeStream()
        try await ScriptedUpstream.run({ connection in
            _ = try await connection.request()
            try await connection.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            for await _ in signal {}
            try await connection.write("2\r\nok\r\n0\r\n\r\n")
        }) { upstream in
            try await RelayFixture.run(at: upstream.url) { (fixture) async throws in
                let response = try await fixture.call(.get, "/x")
                go.finish()
                #expect(try await response.body.text() == "ok")
            }
        }
    }

    @Test(
        "An upstream's trailers exceed the limits, alone or together with the head's fields → the app's answer breaks off",
        arguments: [(0, 300), (100, 40), (0, 6)])
    func trailers(fields: Int, trailers: Int) async throws {
        try await ScriptedUpstream.run({ connection in
            while try await connection.request() != nil {
                try await connection.write(
                    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\(Self.fields(fields, of: 1))\r\n2\r\nok\r\n0\r\n"
                )
                try await connection.write(Self.fields(trailers, of: trailers == 6 ? 12_000 : 1))
                try await connection.write("\r\n")
            }
        }) { upstream in
            try await RelayFixture.run(at: upstream.url) { (fixture) async throws in
                await #expect(throws: (any Error).self) { try await fixture.call(.get, "/x").body.text() }
            }
        }
    }

    @Test("An upstream sends a body after its answer to HEAD → dropped, and the connection is not used again (SEC-79)")
    func bodyOfHead() async throws {
        let evil = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
        try await ScriptedUpstream.run({ connection in
            var isOwed = false
            while let request = try await connection.request() {
                // The upstream sends the body of its answer to HEAD late, when the next request has already arrived.
                if isOwed { try await connection.write(evil) }
                isOwed = request.requestLine.hasPrefix("HEAD ")
                let length = isOwed ? evil.utf8.count : 2
                try await connection.write("HTTP/1.1 200 OK\r\nContent-Length: \(length)\r\n\r\n")
                if !isOwed { try await connection.write("ok") }
            }
        }) { upstream in
            try await RelayFixture.run(at: upstream.url) { (fixture) async throws in
                let head = try await fixture.call(.head, "/x")
                #expect(head.contentLength == evil.utf8.count)
                #expect(try await fixture.call(.get, "/x").body.text() == "ok")
            }
            #expect(upstream.opened == 2)
        }
    }

    @Test("An upstream reads a request and sends no head within the timeout → 504")
    func slowHead() async throws {
        try await ScriptedUpstream.run({ connection in
            _ = try await connection.request()
            try await connection.waitForClose()
        }) { upstream in
            try await RelayFixture.run(at: upstream.url, timeout: .seconds(1)) { (fixture) async throws in
                #expect(try await fixture.problem(.get, "/x").code == .upstreamTimeout)
                let source = ChunkSource(chunk: ByteBuffer(repeating: 0x61, count: 50_000), count: 2)
                let body = UpstreamRequest.Body.stream(UpstreamRequest.Stream(source), length: nil)
                #expect(try await fixture.problem(.post, "/x", body: body).code == .upstreamTimeout)
            }
            #expect(try await eventually { upstream.closed == 2 })
        }
    }

    @Test(
        "An upload makes progress for longer than the timeout for the answer's head → it continues, and the answer arrives"
    )
    func slowUpload() async throws {
        try await ScriptedUpstream.run(answeringOK) { upstream in
            try await RelayFixture.run(at: upstream.url, timeout: .seconds(4)) { (fixture) async throws in
                let slow = AsyncStream<ByteBuffer>(unfolding: {
                    try? await Task.sleep(for: .milliseconds(600))
                    return slowChunks.next()
                })
                let response = try await fixture.call(
                    .post, "/x", body: .stream(UpstreamRequest.Stream(slow), length: nil))
                #expect(response.status == .ok)
            }
            #expect(upstream.received.first?.bodySize == 8)
        }
    }

    @Test(
        "An upstream breaks off a short body → the app gets 502; it breaks off a long body → the answer to the app breaks off"
    )
    func brokenOff() async throws {
        try await ScriptedUpstream.run({ connection in
            guard let request = try await connection.request() else { return }
            let length = request.target == "/small" ? 10 : 1_000_000
            try await connection.write("HTTP/1.1 200 OK\r\nContent-Length: \(length)\r\n\r\nabc")
        }) { upstream in
            try await RelayFixture.run(at: upstream.url) { (fixture) async throws in
                let problem = try await fixture.problem(.get, "/small")
                #expect(problem.code == .upstreamError, "\(problem.code): \(problem.privateDetail ?? "-")")
                let response = try await fixture.call(.get, "/large")
                await #expect(throws: (any Error).self) { try await response.body.text() }
            }
        }
    }

    @Test(
        "An upstream's body stops for longer than the read timeout → the app's answer breaks off, and the connection is closed"
    )
    func silentBody() async throws {
        try await ScriptedUpstream.run({ connection in
            _ = try await connection.request()
            try await connection.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
            try await connection.waitForClose()
        }) { upstream in
            try await RelayFixture.run(at: upstream.url, readTimeout: .seconds(4)) { (fixture) async throws in
                let response = try await fixture.call(.get, "/x")
                await #expect(throws: (any Error).self) { try await response.body.text() }
            }
            #expect(try await eventually { upstream.closed == 1 })
        }
    }

    @Test(
        "An upstream closes each connection after one answer, without notice → the next idempotent calls still succeed")
    func stalePooled() async throws {
        try await ScriptedUpstream.run({ connection in
            if try await connection.request() != nil { try await connection.answer() }
            // The next request may still arrive on this connection. The upstream then closes the connection without an answer.
            _ = try await connection.head()
        }) { upstream in
            try await RelayFixture.run(at: upstream.url) { (fixture) async throws in
                for _ in 0..<5 { #expect(try await fixture.call(.get, "/x").status == .ok) }
            }
        }
    }

    @Test(
        "An upstream is limited to one call, and a user makes it → this user's next: `rate_limited`; another's: `upstream_busy`"
    )
    func places() async throws {
        try await ScriptedUpstream.run({ connection in
            while try await connection.request() != nil {
                try await connection.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
                try await connection.waitForClose()
            }
        }) { upstream in
            try await RelayFixture.run(at: upstream.url, maximumConcurrent: 1) { (fixture) async throws in
                let name = UpstreamName(unchecked: "api")
                try await withThrowingTaskGroup(of: Void.self) { (group) async throws in
                    group.addTask {
                        let response = try await fixture.call(.get, "/x")
                        _ = try? await response.body.text()
                    }
                    #expect(try await eventually { fixture.relay.underWay(name) == 1 && upstream.received.count == 1 })
                    #expect(try await fixture.problem(.get, "/x").code == .rateLimited)
                    let problem = try await fixture.of("ben", 1).problem(.get, "/x")
                    #expect(problem.code == .upstreamBusy)
                    #expect(problem.retryAfter != nil)
                    #expect(fixture.relay.underWay(name) == 1)
                    group.cancelAll()
                }
                #expect(try await eventually { fixture.relay.underWay(name) == 0 })
            }
            #expect(upstream.received.count == 1)
        }
    }
}

/// The chunks of a slow upload: eight of one byte each.
private let slowChunks = SlowChunks()

private final class SlowChunks: Sendable {
    private let counter = ChunkSource.Counter()
    func next() -> ByteBuffer? {
        guard counter.count < 8 else { return nil }
        counter.increment()
        return ByteBuffer(string: "x")
    }
}
