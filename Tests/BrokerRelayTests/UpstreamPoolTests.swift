import BrokerTestSupport
import BrokerWire
import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix
import Synchronization
import Testing

/// The choice among connections to an upstream, the time for which unused connections stay open, and the calls that are
/// repeated.
@Suite("Upstream connections", .timeLimit(.minutes(2)))
struct UpstreamPoolTests {
    /// Makes a client for an upstream, on one event loop.
    private static func client(
        _ upstream: ScriptedUpstream, _ configure: (inout UpstreamLimits) -> Void = { _ in }
    ) -> UpstreamClient {
        var limits = UpstreamLimits()
        configure(&limits)
        return UpstreamClient(
            UpstreamTarget(host: "127.0.0.1", port: upstream.port) { _ in true }, limits,
            on: MultiThreadedEventLoopGroup.singleton.next())
    }

    private static func request(
        _ method: HTTPMethod = .GET, _ target: String = "/x", body: UpstreamRequest.Body = .none
    ) -> UpstreamRequest {
        UpstreamRequest(method, target, ["Host": "a"], body: body, within: .seconds(20))
    }

    private static func text(
        _ client: UpstreamClient, _ method: HTTPMethod = .GET, _ target: String = "/x",
        body: UpstreamRequest.Body = .none
    ) async throws -> String {
        let response = try await client.send(request(method, target, body: body))
        return String(buffer: try await response.collect(upTo: 1 << 20))
    }

    /// Answers with the connection's number, and answers `/together` only after `count` connections have asked for it.
    private static func numbered(_ count: Int) -> @Sendable (ScriptedConnection) async throws -> Void {
        let state = Counters()
        return { connection in
            let number = state.connect()
            while let request = try await connection.request() {
                if request.target == "/together" {
                    state.ask()
                    _ = try await eventually { state.asked >= count }
                }
                try await connection.answer(body: "\(number)")
            }
        }
    }

    private final class Counters: Sendable {
        private let state = Mutex((connections: 0, asked: 0))
        var asked: Int { state.withLock(\.asked) }
        func ask() { state.withLock { $0.asked += 1 } }
        func connect() -> Int {
            state.withLock { state in
                state.connections += 1
                return state.connections
            }
        }
    }

    private static func together(_ count: Int, _ client: UpstreamClient) async throws -> [String] {
        try await withThrowingTaskGroup(of: String.self) { group in
            for _ in 0..<count { group.addTask { try await text(client, .GET, "/together") } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
    }

    @Test("An upstream has several idle connections → the next call uses the connection that was used last")
    func lastFirst() async throws {
        try await ScriptedUpstream.run(Self.numbered(4)) { (upstream) async throws in
            let client = Self.client(upstream)
            #expect(try await Set(Self.together(4, client)).count == 4)
            var numbers: Set<String> = []
            for _ in 0..<8 { numbers.insert(try await Self.text(client)) }
            #expect(numbers.count == 1)
            #expect(upstream.opened == 4)
            await client.shutDown()
        }
    }

    @Test("A kept connection is unused for the idle time → closed; another is used within this time → it stays open")
    func idle() async throws {
        try await ScriptedUpstream.run(Self.numbered(2)) { (upstream) async throws in
            let client = Self.client(upstream) { $0.idle = .seconds(3) }
            _ = try await Self.together(2, client)
            // Of the two connections, one is unused and closes after its idle time. The other one stays open, because each
            // round of the loop uses it.
            var number: Set<String> = []
            #expect(
                try await eventually {
                    number.insert(try await Self.text(client))
                    return upstream.closed == 1
                })
            #expect(number.count <= 2)
            #expect(try await eventually { upstream.closed == upstream.opened })
            await client.shutDown()
        }
    }

    @Test("Four simultaneous calls end, and the pool may keep one connection → the other three connections are closed")
    func bound() async throws {
        try await ScriptedUpstream.run(Self.numbered(4)) { (upstream) async throws in
            // With an idle time of an hour, the idle timer closes no connection during this test.
            let client = Self.client(upstream) {
                $0.kept = 1
                $0.idle = .hours(1)
            }
            _ = try await Self.together(4, client)
            #expect(try await eventually { upstream.closed == 3 })
            _ = try await Self.text(client)
            #expect(upstream.opened == 4)
            await client.shutDown()
        }
    }

    // MARK: Calls that end their connection

    @Test(
        "A call is a HEAD, or a GET, DELETE or OPTIONS with a body → it uses a new connection, which is closed afterwards"
    )
    func ownConnection() async throws {
        try await ScriptedUpstream.run(Self.numbered(1)) { (upstream) async throws in
            let client = Self.client(upstream) { $0.linger = .milliseconds(20) }
            let body = UpstreamRequest.Body.whole(ByteBuffer(string: "hello"))
            #expect(try await Self.text(client) == "1")
            _ = try await Self.text(client, .HEAD)
            #expect(try await Self.text(client) == "1")
            for (index, method) in [HTTPMethod.GET, .DELETE, .OPTIONS].enumerated() {
                #expect(try await Self.text(client, method, body: body) == "\(index + 3)")
                #expect(upstream.received.last?.values("connection") == ["close"])
                #expect(try await Self.text(client) == "1")
            }
            #expect(try await Self.text(client, .POST, body: body) == "1")
            #expect(upstream.opened == 5)
            // The upstream leaves the four connections open, so the client closes them.
            #expect(try await eventually { upstream.closed == 4 })
            await client.shutDown()
        }
    }

    @Test(
        "A HEAD call has ended, and the upstream or the broker closes the connection → no port stays occupied (TIME_WAIT)",
        arguments: [true, false])
    func noPorts(closes: Bool) async throws {
        try await ScriptedUpstream.run({ connection in
            while let request = try await connection.request() {
                try await connection.write(
                    "HTTP/1.1 200 OK\r\n" + (closes ? "Connection: close\r\n" : "") + "Content-Length: 2\r\n\r\n")
                if !request.requestLine.hasPrefix("HEAD") { try await connection.write("ok") }
                if closes { return }
            }
        }) { (upstream) async throws in
            // Another test's listener may have used this port within the last minute, so its closed connections may be listed.
            let before = try Self.takenPorts(to: upstream.port)
            let client = Self.client(upstream) { $0.linger = .milliseconds(20) }
            for _ in 0..<20 { _ = try await Self.text(client, .HEAD) }
            #expect(try await eventually { upstream.closed == 20 })
            if closes { for _ in 0..<20 { #expect(try await Self.text(client, .GET) == "ok") } }
            #expect(try await eventually { upstream.closed == upstream.opened })
            #expect(try Self.takenPorts(to: upstream.port).subtracting(before).isEmpty)
            await client.shutDown()
        }
    }

    /// Returns the local ports that the broker's closed connections to a port still occupy (state TIME_WAIT).
    private static func takenPorts(to port: Int) throws -> Set<Substring> {
        let suffix = ":" + String(port + 0x10000, radix: 16, uppercase: true).dropFirst()
        // Read the table as bytes, because a read as a string ends with the first page.
        let table = try FileHandle(forReadingFrom: URL(filePath: "/proc/net/tcp")).readToEnd() ?? Data()
        let lines = String(decoding: table, as: UTF8.self).split(separator: "\n").map { $0.split(separator: " ") }
        return Set(
            lines.filter { $0.count > 3 && $0[2].hasSuffix(suffix) && $0[3] == "06" }.map { $0[1] })
    }

    @Test(
        "The upstream does not close ten connections after `Connection: close` → the broker closes eight and waits for two"
    )
    func lingering() async throws {
        try await ScriptedUpstream.run({ connection in
            while try await connection.request() != nil { try await connection.answer(body: "") }
        }) { (upstream) async throws in
            let client = Self.client(upstream) {
                $0.linger = .hours(1)
                $0.lingering = 2
            }
            for _ in 0..<10 { _ = try await Self.text(client, .HEAD) }
            #expect(try await eventually { upstream.closed == 8 })
            #expect(upstream.opened == 10)
            await client.shutDown()
            #expect(try await eventually { upstream.closed == 10 })
        }
    }

    @Test(
        "An upstream treats a call's body as another request, and answers it → no call gets this second answer (SEC-79)",
        arguments: [HTTPMethod.GET, .HEAD, .DELETE, .OPTIONS, .POST, .PUT])
    func unreadBody(_ method: HTTPMethod) async throws {
        let asked = Counters()
        try await ScriptedUpstream.run({ connection in
            // This upstream reads no bodies, so it treats the bytes after a head as the next request.
            while let request = try await connection.head() {
                if request.target == "/smuggled" {
                    asked.ask()
                    // The answer comes late, when another call may already use the connection.
                    try await Task.sleep(for: .milliseconds(200))
                }
                let isRefused = request.requestLine.hasPrefix("P")
                try await connection.answer(
                    isRefused ? "404 Not Found" : "200 OK",
                    body: request.requestLine.hasPrefix("HEAD") ? "" : request.target)
                if request.values("connection") == ["close"] { return }
            }
        }) { (upstream) async throws in
            let client = Self.client(upstream) { $0.linger = .milliseconds(20) }
            let body = ByteBuffer(string: "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n")
            for _ in 0..<3 {
                #expect(try await Self.text(client, method, "/a", body: .whole(body)) == (method == .HEAD ? "" : "/a"))
                for number in 0..<3 { #expect(try await Self.text(client, .GET, "/\(number)") == "/\(number)") }
            }
            // Servers expect no body with these methods. The client announces `Connection: close`, so the upstream reads no
            // further request.
            if ![.POST, .PUT].contains(method) { #expect(asked.asked == 0) }
            await client.shutDown()
        }
    }

    // MARK: Connections in the making

    /// Makes a client whose connections stay incomplete, because its proxy is silent.
    private static func stuck(_ upstream: ScriptedUpstream, connect: TimeAmount) -> UpstreamClient {
        var limits = UpstreamLimits()
        limits.connect = connect
        var target = UpstreamTarget(host: "api.example.com", port: 443) { _ in true }
        target.proxy = UpstreamTarget.Proxy(host: "127.0.0.1", port: upstream.port)
        return UpstreamClient(target, limits, on: MultiThreadedEventLoopGroup.singleton.next())
    }

    @Test(
        "Ten callers give up before a connection is open → only one connection attempt, which the next call takes over")
    func givenUpWaiting() async throws {
        try await ScriptedUpstream.run({ try await $0.waitForClose() }) { (upstream) async throws in
            let client = Self.stuck(upstream, connect: .minutes(1))
            for _ in 0..<10 {
                let task = Task { try await client.send(Self.request()) }
                #expect(try await eventually { upstream.opened > 0 })
                try await Task.sleep(for: .milliseconds(20))
                task.cancel()
                _ = try? await task.value
            }
            #expect(upstream.opened == 1)
            await client.shutDown()
        }
    }

    @Test(
        "A call takes over the connection attempt of an abandoned call → the new call still has its full time to connect"
    )
    func inherited() async throws {
        try await ScriptedUpstream.run({ try await $0.waitForClose() }) { (upstream) async throws in
            let client = Self.stuck(upstream, connect: .seconds(3))
            let first = Task { try await client.send(Self.request()) }
            #expect(try await eventually { upstream.opened == 1 })
            try await Task.sleep(for: .seconds(2))
            first.cancel()
            _ = try? await first.value
            let begin = ContinuousClock.now
            await #expect(throws: UpstreamFailure.self) { try await client.send(Self.request()) }
            #expect(ContinuousClock.now - begin > .milliseconds(2800))
            await client.shutDown()
        }
    }

    // MARK: Dead connections

    /// Answers the first request of the first connection.
    ///
    /// At the second request, the upstream writes `bytes` and closes the connection. All other connections answer.
    private static func dying(_ bytes: String = "") -> @Sendable (ScriptedConnection) async throws -> Void {
        let state = Counters()
        return { connection in
            let isFirst = state.connect() == 1
            while try await connection.request() != nil {
                try await connection.answer()
                if isFirst {
                    _ = try await connection.request()
                    if !bytes.isEmpty { try await connection.write(bytes) }
                    return
                }
            }
        }
    }

    @Test(
        "An upstream closes a kept connection when it gets a GET, PUT, DELETE or OPTIONS → the call is sent a second time",
        arguments: [HTTPMethod.GET, .PUT, .DELETE, .OPTIONS])
    func again(_ method: HTTPMethod) async throws {
        try await ScriptedUpstream.run(Self.dying()) { (upstream) async throws in
            let client = Self.client(upstream)
            let body = UpstreamRequest.Body.whole(ByteBuffer(string: "hello"))
            for _ in 0..<2 {
                #expect(try await Self.text(client, method, body: method == .PUT ? body : .none) == "ok")
            }
            #expect(upstream.received.count == 3)
            #expect(upstream.received.last?.bodySize == (method == .PUT ? 5 : 0))
            #expect(upstream.opened == 2)
            await client.shutDown()
        }
    }

    @Test(
        "A connection closes during a POST, PATCH or stream, after an answer's first byte, or at its first call → no repeat"
    )
    func notAgain() async throws {
        let stream = UpstreamRequest.Stream(limit: 5) {
            let once = Mutex<ByteBuffer?>(ByteBuffer(string: "hello"))
            return { once.withLock { $0.take() } }
        }
        let calls: [(HTTPMethod, UpstreamRequest.Body, String)] = [
            (.POST, .none, ""), (.PATCH, .whole(ByteBuffer(string: "x")), ""), (.PUT, .stream(stream, length: 5), ""),
            (.GET, .none, "H"), (.GET, .none, "HTTP/1.1 103 Early Hints\r\n\r\n"),
        ]
        for (method, body, bytes) in calls {
            try await ScriptedUpstream.run(Self.dying(bytes)) { (upstream) async throws in
                let client = Self.client(upstream)
                #expect(try await Self.text(client) == "ok")
                await #expect(throws: UpstreamFailure.self) { try await Self.text(client, method, body: body) }
                #expect(upstream.received.count == 2)
                #expect(upstream.opened == 1)
                await client.shutDown()
            }
        }
        try await ScriptedUpstream.run({ _ = try await $0.request() }) { (upstream) async throws in
            let client = Self.client(upstream)
            await #expect(throws: UpstreamFailure.self) { try await Self.text(client) }
            #expect(upstream.received.count == 1)
            await client.shutDown()
        }
    }

    @Test(
        "Callers give up 200 calls at random moments → the next call succeeds, and the shutdown closes all connections")
    func givenUp() async throws {
        try await ScriptedUpstream.run(Self.numbered(1)) { (upstream) async throws in
            let client = Self.client(upstream)
            for _ in 0..<200 {
                let task = Task { try await Self.text(client) }
                for _ in 0..<Int.random(in: 0..<20) { await Task.yield() }
                task.cancel()
                _ = try? await task.value
            }
            #expect(try await Self.text(client) != "")
            await client.shutDown()
            #expect(try await eventually { upstream.closed == upstream.opened })
        }
    }

    @Test(
        "An upstream sends bytes that no call asked for, in many ways → no call gets another call's answer (SEC-61, SEC-79)",
        .timeLimit(.minutes(10)))
    func cheating() async throws {
        let count = ProcessInfo.processInfo.environment["UPSTREAM_EXCHANGES"].flatMap(Int.init) ?? 6000
        try await ScriptedUpstream.run(Self.cheat) { (upstream) async throws in
            let client = Self.client(upstream)
            let failed = ChunkSource.Counter()
            await withTaskGroup(of: Void.self) { group in
                for caller in 0..<16 {
                    group.addTask {
                        for number in 0..<count / 16 {
                            let target = "/\(caller)-\(number)"
                            do {
                                let text = try await Self.text(client, number % 7 == 0 ? .HEAD : .GET, target)
                                #expect(number % 7 == 0 ? text.isEmpty : text == target)
                            } catch {
                                failed.increment()
                            }
                        }
                    }
                }
            }
            // The relay notices most of the additional bytes between two calls, so fewer than a quarter of the calls fail.
            #expect(failed.count < count / 4)
            await client.shutDown()
        }
    }

    /// Answers each request with its target, and adds bytes that no request asked for.
    @Sendable private static func cheat(_ connection: ScriptedConnection) async throws {
        let evil = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
        var owed = ""
        while let request = try await connection.request() {
            // After the previous answer, only a part of the additional bytes was sent. Send the rest now.
            if !owed.isEmpty { try await connection.write(owed) }
            owed = ""
            let target = request.target
            var answer = "HTTP/1.1 200 OK\r\nContent-Length: \(target.utf8.count)\r\n\r\n\(target)"
            if request.requestLine.hasPrefix("HEAD"), Bool.random() {
                answer = "HTTP/1.1 200 OK\r\nContent-Length: \(target.utf8.count)\r\n\r\n"
            }
            switch Int.random(in: 0..<40) {
            case 0: answer += evil
            case 1: answer += evil + evil
            case 2:
                let cut = Int.random(in: 1..<evil.utf8.count)
                answer += String(decoding: evil.utf8.prefix(cut), as: UTF8.self)
                owed = String(decoding: evil.utf8.dropFirst(cut), as: UTF8.self)
            case 3: answer += "surplus"
            case 4: answer += "\r\n\r\n"
            case 5: answer = "HTTP/1.1 100 Continue\r\n\r\n" + answer
            case 6: answer += "HTTP/1.1 100 Continue\r\n\r\n"
            case 7:
                let size = String(target.utf8.count, radix: 16)
                answer =
                    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\(size)\r\n\(target)\r\n0\r\nX: y\r\n\r\n"
            case 8: answer = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n\(target)"
            case 9: return try await connection.write(answer)
            case 10: return
            default: break
            }
            try await connection.write(answer)
            if answer.hasPrefix("HTTP/1.1 200 OK\r\nConnection: close") { return }
        }
    }
}
