import Broker
import BrokerTestSupport
import BrokerVault
import Foundation
import Testing

@testable import coatcheck

@Suite("Failed store operations", .timeLimit(.minutes(1)))
struct StoreFailureTests {
    private let metrics = MetricsRegistry()
    private let store = InMemoryStore()
    private let now = WallTime(seconds: 1_795_000_000)

    private var timed: TimedStore {
        TimedStore(
            base: store, metrics: metrics, monotonic: { .zero },
            disk: DiskState(log: ProcessLog(level: .error, now: { WallTime(seconds: 0) }, emit: { _ in })))
    }

    private func failures(_ operation: String) -> Bool {
        metrics.text().contains("coatcheck_store_failures_total{operation=\"\(operation)\"} ")
    }

    @Test("A store operation fails three times and succeeds once → three failures are counted for this operation")
    func counted() async throws {
        let token = try OpenSSLVault(ring: .generate(now: now, random: SystemRandom.bytes)).digest([1])
        _ = try await timed.sessions(.token(token), .live, after: nil, limit: 1, now: now)
        #expect(!failures("sessions"))
        store.fail(.sessions, [.refused, .lost, .refused])
        for _ in 0..<3 {
            await #expect(throws: StoreFailure.self) {
                try await timed.sessions(.token(token), .live, after: nil, limit: 1, now: now)
            }
        }
        #expect(metrics.text().contains(#"coatcheck_store_failures_total{operation="sessions"} 3"#))
        _ = try await timed.sessions(.token(token), .live, after: nil, limit: 1, now: now)
        #expect(metrics.text().contains(#"coatcheck_store_failures_total{operation="sessions"} 3"#))
    }

    @Test("A store operation fails after its caller was cancelled → not counted as a failure of the store")
    func cancelled() async throws {
        let token = try OpenSSLVault(ring: .generate(now: now, random: SystemRandom.bytes)).digest([1])
        store.fail(.sessions, [.refused])
        let (timed, now) = (timed, now)
        let task = Task {
            // Wait for the cancellation, so that the call begins in a cancelled task.
            while !Task.isCancelled { await Task.yield() }
            _ = try? await timed.sessions(.token(token), .live, after: nil, limit: 1, now: now)
        }
        task.cancel()
        await task.value
        #expect(store.failures(.sessions) == 0)
        #expect(!failures("sessions"))
    }

    @Test("Every operation that `AroundStore` measures → is a case of `StoreOperation`")
    func registered() throws {
        let source = URL(filePath: #filePath).deletingLastPathComponent()
            .appending(path: "../../../Sources/Broker/Store/AroundStore.swift")
        let text = try String(contentsOf: source, encoding: .utf8)
        let names = Set(text.matches(of: /await around\(\.([A-Za-z]+)\)/).map { String($0.output.1) })
        #expect(names.count > 30)
        #expect(names == Set(StoreOperation.allCases.map { "\($0)" }))
    }
}
