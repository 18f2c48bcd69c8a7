import Broker
import BrokerHTTP
import Logging
import ServiceLifecycle
import Synchronization
import Testing

@testable import coatcheck

@Suite("The order of a shutdown", .timeLimit(.minutes(2)))
struct ReadinessTests {
    /// The steps of the shutdown, in order.
    private final class Journal: Sendable {
        private let lines = Mutex<[String]>([])
        /// The readiness under test, which the journal asks for its state at each wait.
        let readiness = Mutex<Readiness?>(nil)
        func note(_ line: String) { lines.withLock { $0.append(line) } }
        var all: [String] { lines.withLock { $0 } }
    }

    /// The stand-in for the listeners.
    private struct Listener: Service {
        let journal: Journal
        let running: AsyncStream<Void>.Continuation

        func run() async throws {
            running.yield()
            try? await gracefulShutdown()
            journal.note("listener closes")
        }
    }

    @Test(
        "A shutdown begins → readiness fails for the whole delay before a listener closes, and the drain is logged (SEC-123)",
        .timeLimit(.minutes(1)))
    func order() async throws {
        let journal = Journal()
        let log = ProcessLog(
            level: .info, now: { WallTime(seconds: 0) },
            emit: { line in
                let text = String(decoding: line, as: UTF8.self)
                journal.note(String(text[(text.firstRange(of: "\"message\"")?.lowerBound ?? text.startIndex)...]))
            })
        let clock = BrokerClock(
            now: { WallTime(seconds: 0) }, monotonic: { .zero },
            sleep: { pause in
                journal.note("waits \(pause), red: \(journal.readiness.withLock { $0?.isDraining } == true)")
            })
        let service = Readiness(delay: .seconds(2), timeout: .seconds(30), load: ServerLoad(), log: log, clock: clock)
        journal.readiness.withLock { $0 = service }
        #expect(service.limit == .seconds(32))
        #expect(!service.isDraining)
        let running = AsyncStream.makeStream(of: Void.self)
        let group = ServiceGroup(
            services: [service.end, Listener(journal: journal, running: running.continuation), service],
            logger: Logger(label: "test"))
        async let end: Void = group.run()
        for await _ in running.stream { break }
        await group.triggerGracefulShutdown()
        try await end
        #expect(
            journal.all == [
                #""message":"draining","requests":0,"streams":0,"delay_ms":2000,"at_most_ms":32000}"#,
                "waits 2.0 seconds, red: true", "listener closes",
                #""message":"drained","requests":0,"streams":0,"took_ms":0}"#,
            ])
    }
}
