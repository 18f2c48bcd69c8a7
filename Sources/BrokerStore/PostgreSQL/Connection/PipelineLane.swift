import Broker
import Synchronization

/// The queue of the jobs for one group of connections, for example those for single reads.
///
/// Idle connections share the waiting jobs. While all connections are busy, jobs gather in the queue, and then several jobs
/// share a round trip. A lane with `gathering` leaves jobs to the connections that are awake. It wakes another connection
/// when many jobs wait, or when a job has waited long.
final class PipelineLane: Sendable {
    /// The largest number of jobs that may wait.
    ///
    /// At this number, the lane refuses further jobs.
    static let maximumWaiting = 10_000
    /// The longest wait of a job for a connection.
    static let patience = Duration.seconds(5)
    /// The longest time that jobs wait for a connection which is silent, before another connection takes them.
    static let haste = Duration.milliseconds(50)

    private struct State {
        /// The waiting jobs, oldest first, beginning at `head`.
        var jobs: [any PipelineJob] = []
        var head = 0
        /// The idle connections.
        var idle: [Int] = []
        /// The connections that will take jobs without being woken, because they are working or were just woken.
        var awake: Set<Int> = []
        var isClosed = false
        /// The number of connections that have ended.
        var ended = 0
        var closers: [UnsafeContinuation<Void, Never>] = []

        var count: Int { jobs.count - head }

        /// Chooses an idle connection to wake; nil if there is none.
        mutating func wake() -> Int? {
            guard let woken = idle.popLast() else { return nil }
            awake.insert(woken)
            return woken
        }

        /// Notes that a connection is idle.
        mutating func rest(_ connection: Int) {
            awake.remove(connection)
            idle.removeAll { $0 == connection }
        }

        mutating func take(_ limit: Int) -> [any PipelineJob] {
            let end = min(head + limit, jobs.count)
            let taken = Array(jobs[head..<end])
            head = end
            if head == jobs.count {
                jobs.removeAll(keepingCapacity: true)
                head = 0
            } else if head > 1024 {
                jobs.removeFirst(head)
                head = 0
            }
            return taken
        }
    }

    /// Guards the queue and the lists of connections.
    private let state = Mutex(State())
    private let wakeups: [Wakeup]
    /// The number of jobs up to which a new job is left to the connections that are awake.
    private let gathering: Int
    /// Wakes the ticker, which checks for jobs that have waited too long.
    private let alarm: @Sendable () -> Void
    let monotonic: @Sendable () -> Duration

    init(
        wakeups: [Wakeup], gathering: Int = 0, monotonic: @escaping @Sendable () -> Duration,
        alarm: @escaping @Sendable () -> Void
    ) {
        self.wakeups = wakeups
        self.gathering = gathering
        self.monotonic = monotonic
        self.alarm = alarm
    }

    /// The number of waiting jobs, for metrics.
    var waitingCount: Int { state.withLock { $0.count } }

    /// The number of connections that are working or were woken, for tests.
    var awakeCount: Int { state.withLock { $0.awake.count } }

    /// Runs statements as one transaction and decodes the last statement's rows with `decode`.
    func run<Value: Sendable>(
        _ statements: [BoundStatement], isWrite: Bool, _ decode: @escaping @Sendable (ResultRows) throws -> Value
    ) async -> Result<Value, JobFailure> {
        let patience = monotonic() + Self.patience
        return await withUnsafeContinuation { waiter in
            submit(
                WaitedPipelineJob(
                    statements, isWrite: isWrite, patience: patience, waiter: waiter, decode: decode))
        }
    }

    /// The numbers of the lane's connections.
    var connections: Range<Int> { wakeups.indices }

    /// Makes the calling thread serve as one of the lane's connections until the lane is closed.
    ///
    /// The call blocks the thread.
    func serve(
        _ index: Int, _ settings: ConnectionSettings, id: Int, limits: ConnectionMachine.Limits,
        observer: ConnectionObserver
    ) {
        PipelineConnection(
            settings, lane: self, number: index, id: id, wakeup: wakeups[index], limits: limits, observer: observer
        ).run()
    }

    /// Queues a job.
    ///
    /// The job's `finish` is called in every case, even if the lane is full or closed.
    func submit(_ job: any PipelineJob) {
        let (refusal, woken): (String?, Int?) = state.withLock { state in
            if state.isClosed { return ("closed", nil) }
            if state.count >= Self.maximumWaiting { return ("too much waits", nil) }
            state.jobs.append(job)
            // Leave the job to the connections that are awake. They take it when their answers arrive, and waking another
            // connection would cost more than a read.
            if state.count <= gathering, !state.awake.isEmpty { return (nil, nil) }
            return (nil, state.wake())
        }
        if let refusal { return job.finish(.store(.unavailable(refusal))) }
        if let woken { wakeups[woken].signal() } else { alarm() }
    }

    /// Returns the connection's share of the waiting jobs, at most `limit`.
    ///
    /// If the queue is empty, the connection becomes idle.
    func take(_ limit: Int, for connection: Int) -> [any PipelineJob] {
        let (jobs, isLast): ([any PipelineJob], Bool) = state.withLock { state in
            state.rest(connection)
            guard state.count > 0 else {
                state.idle.append(connection)
                return ([], false)
            }
            state.awake.insert(connection)
            let share = gathering > 0 ? limit : (state.count + state.idle.count) / (state.idle.count + 1)
            let jobs = state.take(max(1, min(limit, share)))
            return (jobs, state.isClosed && state.count == 0)
        }
        // The queue is closed and empty now. Wake the connections so that they can end.
        if isLast { for wakeup in wakeups { wakeup.signal() } }
        return jobs
    }

    /// Returns a job that was not executed to the front of the queue.
    ///
    /// A job that has waited too long fails.
    func giveBack(_ job: any PipelineJob) {
        let now = monotonic()
        let woken: Int?? = state.withLock { state in
            guard now < job.patience, !state.isClosed else { return .none }
            if state.head > 0 {
                state.head -= 1
                state.jobs[state.head] = job
            } else {
                state.jobs.insert(job, at: 0)
            }
            return .some(state.wake())
        }
        guard let woken else { return job.finish(.store(.unavailable("PostgreSQL is not reached"))) }
        if let woken { wakeups[woken].signal() } else { alarm() }
    }

    /// Notes that a connection cannot take jobs for now, and wakes another connection for the waiting jobs.
    func rests(_ connection: Int) {
        let (waits, woken): (Bool, Int?) = state.withLock { state in
            state.rest(connection)
            return state.count > 0 ? (true, state.wake()) : (false, nil)
        }
        if let woken { wakeups[woken].signal() } else if waits { alarm() }
    }

    /// Fails jobs that have waited too long, and wakes another connection for jobs that have waited long.
    ///
    /// Returns whether jobs are still waiting.
    func expire(at now: Duration) -> Bool {
        let (late, isWaiting, woken): ([any PipelineJob], Bool, Int?) = state.withLock { state in
            var late: [any PipelineJob] = []
            while let job = state.jobs[state.head...].first, now >= job.patience { late += state.take(1) }
            let hasWaited = state.jobs[state.head...].first.map { now >= $0.patience - Self.patience + Self.haste }
            guard hasWaited == true else { return (late, state.count > 0, nil) }
            // The connections that count as awake have not taken the jobs, so they may be silent. Forget them until they take
            // jobs again.
            state.awake = []
            return (late, true, state.wake())
        }
        if let woken { wakeups[woken].signal() }
        for job in late { job.finish(.store(.unavailable("PostgreSQL is not reached"))) }
        return isWaiting
    }

    /// Whether the lane is closed and its queue is empty.
    var isDrained: Bool { state.withLock { $0.isClosed && $0.count == 0 } }

    /// Refuses new jobs, and waits until the connections have finished the waiting jobs and have ended.
    ///
    /// The wait lasts for `patience` at most.
    func close() async {
        state.withLock { $0.isClosed = true }
        for wakeup in wakeups { wakeup.signal() }
        await withUnsafeContinuation { (waiter: UnsafeContinuation<Void, Never>) in
            let isOver = state.withLock { state in
                guard state.ended < wakeups.count else { return true }
                state.closers.append(waiter)
                return false
            }
            if isOver { waiter.resume() } else { alarm() }
        }
    }

    /// Notes that a connection has ended.
    func ended() {
        let closers = state.withLock { state -> [UnsafeContinuation<Void, Never>] in
            state.ended += 1
            guard state.ended >= wakeups.count else { return [] }
            defer { state.closers = [] }
            return state.closers
        }
        for closer in closers { closer.resume() }
    }
}

/// Counts the connections of a store: those that are open, and those that were lost.
final class ConnectionObserver: Sendable {
    private struct State {
        var up: Set<Int> = []
        var losses = 0
    }

    /// Guards the figures.
    private let state = Mutex(State())

    /// The number of open connections.
    private let count = Atomic<Int>(0)
    var standing: Int { count.load(ordering: .relaxed) }
    /// The number of connections that were lost or failed to open.
    var losses: Int { state.withLock { $0.losses } }

    func changed(_ connection: Int, isUp: Bool) {
        state.withLock { state in
            if isUp { state.up.insert(connection) } else if state.up.remove(connection) != nil { state.losses += 1 }
            count.store(state.up.count, ordering: .relaxed)
        }
    }

    func failed() { state.withLock { $0.losses += 1 } }
}
