import Broker
import BrokerTestSupport
import BrokerVault
import Synchronization
import Testing

@testable import BrokerHTTP

@Suite("Event streams and the end of their sessions", .timeLimit(.minutes(2)))
struct EventStreamTests {
    /// The comments of a stream so far, and the number of comments to wait for.
    private final class Watch: Sendable {
        private struct State {
            var comments = 0
            var wanted = Int.max
        }

        private let state = Mutex(State())
        private let opened = AsyncStream.makeStream(of: Void.self)

        /// Counts the comments of the event stream so far.
        ///
        /// Returns whether as many comments have arrived as the test waits for.
        func take(_ text: String) -> Bool {
            let comments = count(of: ":\n\n", in: text)
            if comments > 0 { opened.continuation.yield() }
            return state.withLock { state in
                state.comments = comments
                return comments >= state.wanted
            }
        }

        /// Waits for the first comment.
        func open() async { for await _ in opened.stream { return } }

        /// Makes the client read until this number of further comments has arrived.
        func want(_ more: Int) { state.withLock { $0.wanted = $0.comments + more } }
    }

    private func request(_ signedIn: SignedIn, _ method: String = "GET") -> String {
        "\(method) /v1/session/events HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            + (signedIn.transport == .bearer
                ? "Authorization: Bearer \(signedIn.token.reveal())\r\n\r\n"
                : "Cookie: __Host-coatcheck=\(signedIn.token.reveal())\r\n\r\n")
    }

    private func harness(_ time: TestClock = TestClock()) throws -> HTTPHarness {
        try HTTPHarness(time: time) { configuration, _ in configuration.limits.eventHeartbeat = .milliseconds(20) }
    }

    @Test(
        "A session lapses → its event stream ends with `session_ended` and the reason `idle_expired`",
        .timeLimit(.minutes(1)))
    func lapse() async throws {
        let time = TestClock()
        let harness = try harness(time)
        let signedIn = try await harness.signIn()
        let watch = Watch()
        let answer = try await harness.live { port in
            async let stream = RawClient(port: port).answer(to: request(signedIn)) { watch.take($0) }
            await watch.open()
            #expect(harness.load.streams == 1)
            let head = try await RawClient(port: port).exchange(request(signedIn, "HEAD"))
            #expect(head.hasPrefix("HTTP/1.1 200 "))
            time.advance(.seconds(31 * 86_400))
            return try await stream
        }
        #expect(answer.contains("event: session_ended\ndata: {\"reason\":\"idle_expired\"}\n\n"), "\(answer)")
        #expect(answer.hasSuffix("0\r\n\r\n"))
        #expect(count(of: "session_ended", in: answer) == 1)
        #expect(harness.load.streams == 0)
    }

    @Test(
        "A session is ended elsewhere and the notice is lost → its stream ends",
        .timeLimit(.minutes(1)))
    func endedElsewhere() async throws {
        let harness = try harness()
        let signedIn = try await harness.signIn()
        let token = harness.vault.digest(Array(signedIn.token.reveal().utf8))
        let watch = Watch()
        let answer = try await harness.live { port in
            async let stream = RawClient(port: port).answer(to: request(signedIn)) { watch.take($0) }
            await watch.open()
            _ = try await harness.store.endSessions(.token(token), reason: .admin, now: TestClock.start, limit: 9)
            harness.context.cache.remove([token])
            return try await stream
        }
        #expect(answer.contains("event: session_ended\ndata: {\"reason\":\"admin\"}\n\n"), "\(answer)")
        #expect(answer.hasSuffix("0\r\n\r\n"))
    }

    @Test("The store does not answer → event streams continue (guarantee 3)", .timeLimit(.minutes(1)))
    func storeGone() async throws {
        let harness = try harness()
        let signedIn = try await harness.signIn()
        let token = harness.vault.digest(Array(signedIn.token.reveal().utf8))
        let watch = Watch()
        let text = try await harness.live { port in
            async let stream = RawClient(port: port).answer(to: request(signedIn)) { watch.take($0) }
            await watch.open()
            await harness.store.close()
            harness.context.cache.remove([token])
            watch.want(5)
            return try await stream
        }
        #expect(!text.contains("session_ended"))
        #expect(!text.hasSuffix("0\r\n\r\n"))
    }

    /// Opens a stream.
    ///
    /// Returns a task that ends with the stream and has its text.
    private func listen(_ port: Int, _ signedIn: SignedIn) async throws -> Task<String, any Error> {
        let opened = AsyncStream.makeStream(of: Void.self)
        let request = request(signedIn)
        let stream = Task {
            defer { opened.continuation.finish() }
            return try await RawClient(port: port).answer(to: request) { text in
                if text.contains(":\n\n") { opened.continuation.yield() }
                return false
            }
        }
        for await _ in opened.stream { break }
        return stream
    }

    @Test(
        "An address may have one anonymous connection, and opens a session's event stream on it → another is accepted (SEC-105)"
    )
    func moreConnections() async throws {
        let harness = try HTTPHarness { configuration, _ in
            configuration.limits.eventHeartbeat = .milliseconds(20)
            configuration.limits.anonymousConnectionsPerAddress = 1
        }
        let signedIn = try await harness.signIn()
        try await harness.live { port in
            let stream = try await listen(port, signedIn)
            let second = try await RawClient(port: port).exchange(
                "GET /v1/providers HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            #expect(second.hasPrefix("HTTP/1.1 200 "), "\(second)")
            try await harness.useCases.endSession.logOut(signedIn.token)
            _ = try await stream.value
        }
    }

    @Test("A session opens a ninth stream → its oldest stream ends cleanly, and the session continues (SEC-105)")
    func perSession() async throws {
        let harness = try harness()
        let signedIn = try await harness.signIn()
        try await harness.live { port in
            var streams: [Task<String, any Error>] = []
            for _ in 0..<8 { streams.append(try await listen(port, signedIn)) }
            #expect(harness.load.streams == 8)
            // The streams of another session have their own limit.
            let other = try await harness.signIn(code: "canary-other")
            let another = try await listen(port, other)
            #expect(harness.load.streams == 9)
            for number in 8..<12 {
                streams.append(try await listen(port, signedIn))
                let ended = try await streams[number - 8].value
                #expect(ended.hasSuffix("0\r\n\r\n") && !ended.contains("session_ended"), "\(ended)")
            }
            #expect(harness.load.streams == 9)
            try await harness.useCases.endSession.logOut(signedIn.token)
            for stream in streams[4...] { #expect(try await stream.value.contains("session_ended")) }
            try await harness.useCases.endSession.logOut(other.token)
            #expect(try await another.value.contains("session_ended"))
        }
    }

    @Test(
        "A user has the most event streams that a client allows → the next one ends the oldest of these streams (SEC-105)"
    )
    func perSubject() async throws {
        var harness = try harness()
        var settings = BrokerSettings()
        settings.sessionsPerSubjectAndClient = 2
        harness.limit(to: settings)
        let running = harness
        let (one, two) = (try await running.signIn(code: "c1"), try await running.signIn(code: "c2"))
        let desk = try await running.signIn(client: "desk", code: "c3")
        try await running.live { port in
            var streams: [Task<String, any Error>] = []
            for signedIn in [one, two, one, two] { streams.append(try await listen(port, signedIn)) }
            let other = try await listen(port, desk)
            #expect(running.load.streams == 5)
            for (number, signedIn) in [two, one, one].enumerated() {
                streams.append(try await listen(port, signedIn))
                #expect(try await streams[number].value.hasSuffix("0\r\n\r\n"))
            }
            #expect(running.load.streams == 5)
            for signedIn in [one, two, desk] { try await running.useCases.endSession.logOut(signedIn.token) }
            for stream in streams[3...] + [other] { #expect(try await stream.value.contains("session_ended")) }
        }
    }

    @Test(
        "A session's 100 event streams have closed → eight new ones stay open together, and a ninth ends the oldest of them"
    )
    func places() async throws {
        let harness = try harness()
        let signedIn = try await harness.signIn()
        let live = try await harness.useCases.resumeSession.resume(signedIn.token)
        let heard = Mutex<[SessionNotice]>([])
        func listen() -> Subscription {
            harness.useCases.listenToSession.listen(live) { notice in heard.withLock { $0.append(notice) } }
        }
        for _ in 0..<100 { _ = listen() }
        var held = (0..<8).map { _ in listen() }
        #expect(heard.withLock { $0.isEmpty })
        held.append(listen())
        #expect(heard.withLock { $0 } == [.superseded])
        // The ninth subscription has superseded the first one, which gets no more notices. The other eight still get them after
        // the first one is gone.
        held.removeFirst()
        harness.context.notices.post(.tokensRefreshed, to: live.tokenDigest)
        #expect(heard.withLock { $0.count } == 9)
        held = []
        #expect(harness.context.notices.listenedTo.isEmpty)
    }
}
