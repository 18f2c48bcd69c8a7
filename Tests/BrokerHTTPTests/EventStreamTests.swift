import Broker
import BrokerStore
import BrokerVault
import Synchronization
import Testing

@testable import BrokerHTTP

@Suite("Event streams and the end of their sessions", .timeLimit(.minutes(2)))
struct EventStreamTests {
    /// What a stream has said so far, and how much more of it is wanted.
    private final class Watch: Sendable {
        private struct State {
            var comments = 0
            var wanted = Int.max
        }

        private let state = Mutex(State())
        private let opened = AsyncStream.makeStream(of: Void.self)

        /// Takes the text so far; returns whether it is enough.
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

        /// Is content with so many further comments.
        func want(_ more: Int) { state.withLock { $0.wanted = $0.comments + more } }
    }

    private func request(_ signedIn: SignedIn, _ method: String = "GET") -> String {
        "\(method) /v1/session/events HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            + "Cookie: __Host-coatcheck=\(signedIn.token.reveal())\r\n\r\n"
    }

    private func harness(_ time: Moment = Moment()) throws -> HTTPHarness {
        try HTTPHarness(time: time) { configuration, _ in configuration.limits.eventHeartbeat = .milliseconds(20) }
    }

    @Test("A session that lapses ends its stream, with the reason", .timeLimit(.minutes(1)))
    func lapse() async throws {
        let time = Moment()
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

    @Test("A session that was ended elsewhere ends its stream although no notice came", .timeLimit(.minutes(1)))
    func endedElsewhere() async throws {
        let harness = try harness()
        let signedIn = try await harness.signIn()
        let token = harness.vault.digest(Array(signedIn.token.reveal().utf8))
        let watch = Watch()
        let answer = try await harness.live { port in
            async let stream = RawClient(port: port).answer(to: request(signedIn)) { watch.take($0) }
            await watch.open()
            _ = try await harness.store.endSessions(.token(token), reason: .admin, now: TestMoment.now, limit: 9)
            harness.context.cache.remove([token])
            return try await stream
        }
        #expect(answer.contains("event: session_ended\ndata: {\"reason\":\"admin\"}\n\n"), "\(answer)")
        #expect(answer.hasSuffix("0\r\n\r\n"))
    }

    @Test("A store that does not answer ends no stream (guarantee 3)", .timeLimit(.minutes(1)))
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
}
