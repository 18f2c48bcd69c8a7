import Broker
import BrokerRelay
import BrokerTestSupport
import BrokerWire
import HTTPTypes
import Hummingbird
import HummingbirdTesting
import Logging
import NIOCore
import Synchronization
import Testing

@testable import BrokerHTTP

/// Relayed answers that are in progress when one of these ends: the session of the call, or the pass that the call used
/// (guarantees 6 and 9).
@Suite("The ends of relayed answers", .timeLimit(.minutes(2)))
struct RelayedAnswerTests {
    /// A running broker in front of an upstream.
    private struct Running: Sendable {
        let harness: HTTPHarness
        let port: Int
        let seen: RelayRouteTests.Seen
        let watch: EndWatch

        /// Opens an answer.
        ///
        /// After its first piece, returns a task with the whole text.
        func open(_ path: String, _ token: Secret, isBearer: Bool = false) async throws -> Task<String, any Error> {
            let opened = AsyncStream.makeStream(of: Void.self)
            let (port, text) = (port, RelayedAnswerTests.get(path, token, isBearer: isBearer))
            let answer = Task {
                defer { opened.continuation.finish() }
                return try await RawClient(port: port).answer(to: text) { text in
                    if text.contains("piece") { opened.continuation.yield() }
                    return false
                }
            }
            for await _ in opened.stream { break }
            return answer
        }
    }

    private static func get(_ path: String, _ token: Secret, isBearer: Bool = false) -> String {
        "GET /v1/relay/api\(path) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            + (isBearer
                ? "Authorization: Bearer \(token.reveal())\r\n\r\n"
                : "Cookie: __Host-coatcheck=\(token.reveal())\r\n\r\n")
    }

    private static let widget = ChildKind(unchecked: "widget")

    /// An upstream with endless answers, and the broker in front of it.
    private func run(
        grace: Duration = .milliseconds(200), time: TestClock = TestClock(),
        _ body: @escaping @Sendable (Running) async throws -> Void
    ) async throws {
        let seen = RelayRouteTests.Seen()
        let router = Router()
        /// Adds a route that sends pieces until its client has gone, and that records the client's end.
        func endless(_ name: String, _ headers: HTTPFields, piece: Int = 5) {
            router.get("/\(name)") { _, _ in
                seen.add("asked \(name)")
                return Response(
                    status: .ok, headers: headers,
                    body: ResponseBody { writer in
                        defer { seen.add("ended \(name)") }
                        while true {
                            try await writer.write(ByteBuffer(string: "piece" + String(repeating: ".", count: piece)))
                            try await Task.sleep(for: .milliseconds(10))
                        }
                    })
            }
        }
        let events: HTTPFields = [.contentType: "text/event-stream; charset=utf-8"]
        endless("events", events)
        endless("download", [:])
        endless("large", [:], piece: 1 << 20)
        endless("sized", [.contentType: "text/event-stream", .contentLength: "100000000"])
        router.get("/late/:what") { _, context in
            seen.add("asked late")
            try await eventually("the test lets the upstream answer") { seen.all.contains("enough") }
            return context.parameters.get("what") == "events"
                ? Response(status: .ok, headers: events, body: ResponseBody { try await $0.finish(nil) })
                : Response(status: .ok, body: ResponseBody(byteBuffer: ByteBuffer(string: "late piece")))
        }
        var logger = Logger(label: "upstream")
        logger.logLevel = .critical
        let upstream = Application(
            router: router, configuration: ApplicationConfiguration(address: .hostname("127.0.0.1", port: 0)),
            logger: logger)
        try await upstream.test(.live) { client in
            guard let upstreamPort = client.port else { throw BrokerProblem(.internalError) }
            let (api, other) = (UpstreamName(unchecked: "api"), UpstreamName(unchecked: "other"))
            var harness = try HTTPHarness(
                time: time,
                children: [Self.widget: ChildPolicy(upstreams: [api]), .web: ChildPolicy(upstreams: [other])]
            ) { configuration, _ in configuration.limits.relayedGrace = grace }
            let relay = Relay(
                upstreams: try [api, other].map { name in
                    try UpstreamSettings(
                        name: name, baseURL: "http://127.0.0.1:\(upstreamPort)",
                        provider: ProviderName(unchecked: "as"), allow: ["GET /**"])
                })
            harness.relay = relay
            let running = harness
            do {
                try await running.live { port in
                    try await body(
                        Running(harness: running, port: port, seen: seen, watch: EndWatch(running.context)))
                }
            } catch {
                await relay.shutdown()
                throw error
            }
            await relay.shutdown()
        }
    }

    private func hasEnded(_ name: String, _ running: Running) async throws {
        try await eventually("the upstream's connection has closed") { running.seen.all.contains("ended \(name)") }
    }

    @Test(
        "A session ends during a relayed event stream → the app gets the body's last chunk, and the call to the upstream ends"
    )
    func logOut() async throws {
        try await run { running in
            let signedIn = try await running.harness.signIn()
            let other = try await running.harness.signIn(code: "canary-other")
            let answer = try await running.open("/events", signedIn.token)
            let others = try await running.open("/events", other.token)
            let begun = ContinuousClock.now
            try await running.harness.useCases.endSession.logOut(signedIn.token)
            let text = try await answer.value
            #expect(ContinuousClock.now - begun < .seconds(5))
            #expect(text.hasPrefix("HTTP/1.1 200 ") && text.hasSuffix("\r\n0\r\n\r\n"))
            try await hasEnded("events", running)
            #expect(running.seen.all.count { $0 == "ended events" } == 1)
            try await running.harness.useCases.endSession.logOut(other.token)
            #expect(try await others.value.hasSuffix("\r\n0\r\n\r\n"))
            try await eventually("the register of open answers is empty") {
                running.harness.context.notices.listenedTo.isEmpty
            }
        }
    }

    @Test("A session lapses during a relayed event stream → the stream ends, even if more bytes arrive")
    func lapse() async throws {
        let time = TestClock()
        try await run(time: time) { running in
            let signedIn = try await running.harness.signIn()
            let answer = try await running.open("/events", signedIn.token)
            time.advance(.seconds(91 * 86_400))
            await running.watch.look()
            #expect(try await answer.value.hasSuffix("\r\n0\r\n\r\n"))
            try await hasEnded("events", running)
        }
    }

    @Test("A relayed event stream carries bytes → the session counts as used, so it does not reach its idle end")
    func use() async throws {
        let time = TestClock()
        try await run(time: time) { running in
            let signedIn = try await running.harness.signIn()
            let digest = running.harness.vault.digest(signedIn.token)
            let answer = try await running.open("/events", signedIn.token)
            for _ in 0..<4 {
                time.advance(.seconds(20 * 86_400))
                let now = time.now
                try await eventually("the use of the session is stored") {
                    try await running.harness.store.session(tokenDigest: digest)?.lastUsedAt == now
                }
                await running.watch.look()
            }
            _ = try await running.harness.useCases.resumeSession.resume(signedIn.token)
            try await running.harness.useCases.endSession.logOut(signedIn.token)
            #expect(try await answer.value.hasSuffix("\r\n0\r\n\r\n"))
        }
    }

    @Test("A child's relayed event stream → ends when the child ends, or when its parent ends")
    func child() async throws {
        try await run { running in
            let parent = try await running.harness.signIn()
            let live = try await running.harness.useCases.resumeSession.resume(parent.token)
            var children: [SignedIn] = []
            for name in ["one", "two"] {
                children.append(
                    try await running.harness.useCases.makeChild.make(
                        ChildOrder(kind: Self.widget, name: name), of: live))
            }
            let first = try await running.open("/events", children[0].token, isBearer: true)
            let second = try await running.open("/events", children[1].token, isBearer: true)
            try await running.harness.useCases.endSession.logOut(children[0].token)
            #expect(try await first.value.hasSuffix("\r\n0\r\n\r\n"))
            #expect(running.seen.all.count { $0 == "ended events" } <= 1)
            try await running.harness.useCases.endSession.logOut(parent.token)
            #expect(try await second.value.hasSuffix("\r\n0\r\n\r\n"))
        }
    }

    @Test(
        "A session ends during a relayed download → the answer continues for a grace time, and then stops incomplete",
        arguments: ["download", "sized"])
    func download(name: String) async throws {
        try await run(grace: .seconds(1)) { running in
            let signedIn = try await running.harness.signIn()
            let answer = try await running.open("/\(name)", signedIn.token)
            let begun = ContinuousClock.now
            try await running.harness.useCases.endSession.logOut(signedIn.token)
            let text = try await answer.value
            #expect(ContinuousClock.now - begun >= .milliseconds(900))
            #expect(text.contains("piece") && !text.hasSuffix("0\r\n\r\n"))
            #expect(text.utf8.count < 1_000_000)
            try await hasEnded(name, running)
        }
    }

    @Test(
        "A session ends while its client does not read a relayed answer → the client's and the upstream's connections close"
    )
    func unread() async throws {
        try await run { running in
            let signedIn = try await running.harness.signIn()
            let text = Self.get("/large", signedIn.token)
            _ = try await RawClient(port: running.port).received(after: text) {
                try await eventually("the upstream has received the call") { running.seen.all.contains("asked large") }
                // The client's buffers are full now, so the broker can no longer send the bytes that it holds.
                try await eventually("only the call for the large answer is in progress") {
                    running.harness.load.requests == 1
                }
                try await running.harness.useCases.endSession.logOut(signedIn.token)
                try await hasEnded("large", running)
                try await eventually("no call is in progress") { running.harness.load.requests == 0 }
            }
        }
    }

    @Test(
        "A session ends before the head of a relayed answer → `session_ended`, for an event stream and for any other answer",
        arguments: ["events", "other"])
    func late(what: String) async throws {
        try await run { running in
            let signedIn = try await running.harness.signIn()
            let (port, text) = (running.port, Self.get("/late/\(what)", signedIn.token))
            let answer = Task { try await RawClient(port: port).exchange(text) }
            try await eventually("the upstream is asked") { running.seen.all.contains("asked late") }
            try await running.harness.useCases.endSession.logOut(signedIn.token)
            if what == "other" { try await Task.sleep(for: .milliseconds(250)) }
            running.seen.add("enough")
            let told = try await answer.value
            #expect(told.hasPrefix("HTTP/1.1 401 ") && told.contains(#""code":"session_ended""#), "\(told)")
            #expect(!told.contains("late piece"))
        }
    }

    @Test("A child calls an upstream → served only for the upstreams of its kind")
    func named() async throws {
        try await run { running in
            let parent = try await running.harness.signIn()
            let live = try await running.harness.useCases.resumeSession.resume(parent.token)
            let child = try await running.harness.useCases.makeChild.make(
                ChildOrder(kind: Self.widget, name: "one"), of: live)
            let refused = try await RawClient(port: running.port).exchange(
                Self.get("/late/other", child.token, isBearer: true).replacing("/relay/api/", with: "/relay/other/"))
            #expect(refused.hasPrefix("HTTP/1.1 403 ") && refused.contains(#""code":"upstream_not_allowed""#))
            #expect(running.seen.all.isEmpty)
            running.seen.add("enough")
            let taken = try await RawClient(port: running.port).exchange(
                Self.get("/late/other", child.token, isBearer: true))
            #expect(taken.hasPrefix("HTTP/1.1 200 ") && taken.contains("late piece"))
        }
    }
}
