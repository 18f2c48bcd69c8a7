import Broker
import Foundation
import Synchronization
import Testing

@testable import BrokerStore

/// Measurements for a comparison with `pgbench -S -M prepared`.
///
/// They neither pass nor fail.
///
/// They run if `COATCHECK_MEASURE` is set.
@Suite("PostgreSQL: the speed of the store's port", .serialized)
struct PostgreSQLMeasurement {
    private static let isAsked = ProcessInfo.processInfo.environment["COATCHECK_MEASURE"] != nil

    /// A counter that several tasks increase.
    private final class Tally: Sendable {
        private let count = Atomic<Int>(0)

        func add() { count.add(1, ordering: .relaxed) }
        var value: Int { count.load(ordering: .relaxed) }
    }

    private func rate(
        _ what: String, tasks: Int, _ body: @escaping @Sendable (Int) async throws -> Void
    ) async throws {
        let tally = Tally()
        let begin = ContinuousClock.now
        try await withThrowingTaskGroup(of: Void.self) { group in
            for task in 0..<tasks {
                group.addTask {
                    var step = task
                    while ContinuousClock.now - begin < .seconds(4) {
                        try await body(step)
                        step += tasks
                        tally.add()
                    }
                }
            }
            try await group.waitForAll()
        }
        let milliseconds = (ContinuousClock.now - begin).wholeMilliseconds
        print("measured: \(what), \(tasks) at once: \(Int64(tally.value) * 1000 / milliseconds) a second")
    }

    @Test(
        "The store under load, direct and pooled → the test prints the reads, slides and sign-ins a second",
        .enabled(if: isAsked)
    )
    func rates() async throws {
        try await PostgreSQLServer.withDatabase { direct, pooled in
            for (name, url, isPooled) in [("direct", direct, false), ("pooled", pooled, true)] {
                let settings = try ConnectionSettings(url: url, isPooled: isPooled)
                let store = try await PostgreSQLStore.open(settings, listening: nil, connections: 8, migrating: false)
                let sessions = (0..<1000).map { _ in Rows.session() }
                for session in sessions { try await store.signIn(session) }
                for tasks in [1, 8, 64, 256] {
                    try await rate("\(name) session reads", tasks: tasks) { step in
                        _ = try await store.session(tokenDigest: sessions[step % 1000].tokenDigest)
                    }
                }
                try await rate("\(name) slides", tasks: 64) { step in
                    try await store.slideSession(
                        tokenDigest: sessions[step % 1000].tokenDigest,
                        lastUsedAt: Rows.seconds(Int64(step / 1000 % 3000)),
                        idleExpiresAt: Rows.seconds(Int64(3600 + step)))
                }
                try await rate("\(name) sign-ins", tasks: 64) { _ in try await store.signIn(Rows.session()) }
                await store.close()
            }
        }
    }
}
