import Broker
import Dispatch
import GRDB
import Synchronization

/// Where reads run: a few threads of their own with a connection each, never the cooperative pool.
///
/// Reads of single rows and reads that walk many have lanes apart, so that neither a list nor a count holds up a
/// session's check. A lane takes one read at a time; a further lane starts when none is idle.
final class ReaderLanes: Sendable {
    /// How many threads read single rows at once, and how many walk tables.
    static let points = 3
    static let scans = 1

    private struct State {
        var waiting: [any LaneJob] = []
        /// Those in front have been taken.
        var taken = 0
        var running = 0
        var closed = false

        mutating func next() -> (any LaneJob)? {
            guard taken < waiting.count else {
                waiting.removeAll(keepingCapacity: waiting.count <= 256)
                taken = 0
                running -= 1
                return nil
            }
            if taken > 256, taken * 2 > waiting.count {
                waiting.removeFirst(taken)
                taken = 0
            }
            defer { taken += 1 }
            return waiting[taken]
        }
    }

    private let pool: DatabasePool
    private let count: Int
    private let queue: DispatchQueue
    /// Guards what waits and how many threads run.
    private let state = Mutex(State())

    init(_ pool: DatabasePool, count: Int) {
        self.pool = pool
        self.count = count
        queue = DispatchQueue(label: "coatcheck.store.readers", attributes: .concurrent)
    }

    /// Runs a query outside any transaction and waits for its result.
    func read<Value: Sendable>(
        _ body: @escaping @Sendable (Database) throws -> Value
    ) async throws(StoreFailure) -> Value {
        let job = WaitedJob(body)
        let (accepted, start) = state.withLock { state in
            guard !state.closed else { return (false, false) }
            state.waiting.append(job)
            guard state.running < count else { return (true, false) }
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
        var job = state.withLock { $0.next() }
        while let first = job {
            do {
                // The connection is kept while there is something to read with it.
                try pool.unsafeRead { database in
                    while let next = job {
                        // A job keeps what it threw; the next one has nothing to do with it.
                        try? next.run(database)
                        next.finish(nil)
                        job = state.withLock { $0.next() }
                    }
                }
            } catch {
                first.finish(StoreFailure(describing: error))
                job = state.withLock { $0.next() }
            }
        }
    }
}
