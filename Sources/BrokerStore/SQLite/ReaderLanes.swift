import Broker
import Dispatch
import GRDB
import Synchronization

/// Where reads run: a few threads of their own with a connection each, never the cooperative pool.
///
/// A thread that is awake takes what waits, so that many point reads share one wake-up.
final class ReaderLanes: Sendable {
    /// How many threads read at once.
    static let count = 3

    private struct State {
        var waiting: [any LaneJob] = []
        var running = 0
        var closed = false
    }

    /// One thread takes at most this many before it looks whether others could help.
    private static let batch = 16

    private let pool: DatabasePool
    private let queue = DispatchQueue(label: "coatcheck.store.readers", attributes: .concurrent)
    /// Guards what waits and how many threads run.
    private let state = Mutex(State())

    init(_ pool: DatabasePool) { self.pool = pool }

    /// Runs a query outside any transaction and waits for its result.
    func read<Value: Sendable>(
        _ body: @escaping @Sendable (Database) throws -> Value
    ) async throws(StoreFailure) -> Value {
        let job = WaitedJob(body)
        let (accepted, start) = state.withLock { state in
            guard !state.closed else { return (false, false) }
            state.waiting.append(job)
            // A further thread is worth its wake-up only when the ones that run have plenty.
            guard state.running < Self.count, state.waiting.count > state.running * Self.batch else {
                return (true, false)
            }
            state.running += 1
            return (true, true)
        }
        guard accepted else { throw .unavailable("closed") }
        if start { queue.async { self.drain() } }
        return try await job.value()
    }

    /// Takes no more work and returns when what waited is done.
    func close() async {
        state.withLock { $0.closed = true }
        // A read that was accepted just before may not have reached the queue yet.
        repeat {
            await withUnsafeContinuation { continuation in queue.async(flags: .barrier) { continuation.resume() } }
        } while state.withLock { $0.running > 0 }
    }

    private func drain() {
        while true {
            let jobs: [any LaneJob] = state.withLock { state in
                guard !state.waiting.isEmpty else {
                    state.running -= 1
                    return []
                }
                let taken = Array(state.waiting.prefix(Self.batch))
                state.waiting.removeFirst(taken.count)
                return taken
            }
            if jobs.isEmpty { return }
            run(jobs)
        }
    }

    private func run(_ jobs: [any LaneJob]) {
        var done = 0
        do {
            try pool.unsafeRead { database in
                for job in jobs {
                    // A job keeps what it threw; the next one has nothing to do with it.
                    try? job.run(database)
                    job.finish(nil)
                    done += 1
                }
            }
        } catch {
            for job in jobs.dropFirst(done) { job.finish(StoreFailure(describing: error)) }
        }
    }
}
