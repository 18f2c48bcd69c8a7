import Broker
import BrokerTestSupport
import Synchronization
import Testing

@testable import BrokerStore

@Suite("A PostgreSQL lane's choice of a connection for waiting jobs", .timeLimit(.minutes(2)))
struct PipelineLaneTests {
    /// A job that records its result.
    private final class Job: PipelineJob {
        let statements: [BoundStatement] = []
        let isWrite = false
        let patience: Duration
        let failure = Mutex<JobFailure?>(nil)

        init(at moment: Duration) { patience = moment + PipelineLane.patience }

        func keep(_ rows: ResultRows) {}
        func finish(_ failure: JobFailure?) { self.failure.withLock { $0 = failure } }
    }

    /// A lane with three open and idle connections.
    private struct Bench {
        let lane: PipelineLane
        let clock = TestClock()
        let alarms = Alarms()

        init(gathering: Int) throws {
            let wakeups = (0..<3).compactMap { _ in Wakeup() }
            try #require(wakeups.count == 3)
            lane = PipelineLane(wakeups: wakeups, gathering: gathering, monotonic: { [clock] in clock.monotonic }) {
                [alarms] in
                alarms.add()
            }
            for index in 0..<3 { #expect(lane.take(64, for: index).isEmpty) }
        }

        @discardableResult
        func submit(_ count: Int = 1) -> [Job] {
            let jobs = (0..<count).map { _ in Job(at: clock.monotonic) }
            for job in jobs { lane.submit(job) }
            return jobs
        }
    }

    private final class Alarms: Sendable {
        private let value = Atomic<Int>(0)
        var count: Int { value.load(ordering: .relaxed) }
        func add() { value.add(1, ordering: .relaxed) }
    }

    @Test("A lane does not gather jobs for one connection → each new job wakes an idle connection, if there is one")
    func spreads() throws {
        let bench = try Bench(gathering: 0)
        for awake in 1...3 {
            bench.submit()
            #expect(bench.lane.awakeCount == awake)
        }
        bench.submit()
        #expect(bench.lane.awakeCount == 3)
        #expect(bench.lane.waitingCount == 4)
        #expect(bench.lane.take(64, for: 0).count == 4)
    }

    @Test(
        "A lane gathers jobs, and a job comes while its connection works → the job waits for this connection for a limited time"
    )
    func gathers() throws {
        let bench = try Bench(gathering: 4)
        bench.submit()
        #expect(bench.lane.awakeCount == 1)
        #expect(bench.alarms.count == 0)
        #expect(bench.lane.take(64, for: 2).count == 1)
        bench.submit(4)
        #expect(bench.lane.awakeCount == 1)
        #expect(bench.alarms.count == 4)
        // In one round trip, the connection takes all of the waiting jobs, and not only its share of them.
        #expect(bench.lane.take(64, for: 2).count == 4)
        #expect(bench.lane.take(64, for: 2).isEmpty)
        #expect(bench.lane.awakeCount == 0)
        bench.submit()
        #expect(bench.lane.awakeCount == 1)
    }

    @Test("Jobs arrive before a woken connection has started → this connection takes them, too")
    func woken() throws {
        let bench = try Bench(gathering: 4)
        bench.submit(3)
        #expect(bench.lane.awakeCount == 1)
    }

    @Test("More jobs wait than one connection should take → the lane wakes another connection")
    func much() throws {
        let bench = try Bench(gathering: 4)
        bench.submit()
        #expect(bench.lane.take(64, for: 2).count == 1)
        bench.submit(5)
        #expect(bench.lane.awakeCount == 2)
        bench.submit()
        #expect(bench.lane.awakeCount == 3)
    }

    @Test(
        "A connection waits for the server's answer → new jobs wait for this connection at most 50 ms, then another takes them"
    )
    func haste() throws {
        let bench = try Bench(gathering: 4)
        bench.submit()
        #expect(bench.lane.take(64, for: 2).count == 1)
        let jobs = bench.submit(2)
        let moment = bench.clock.monotonic
        #expect(bench.lane.expire(at: moment + PipelineLane.haste - .milliseconds(1)))
        #expect(bench.lane.awakeCount == 1)
        #expect(bench.lane.expire(at: moment + PipelineLane.haste))
        #expect(bench.lane.awakeCount == 1)
        #expect(bench.lane.take(64, for: 1).count == 2)
        #expect(bench.lane.take(64, for: 1).isEmpty)
        // A job that is submitted now wakes another connection, and does not wait for the silent one.
        #expect(bench.lane.awakeCount == 0)
        bench.submit()
        #expect(bench.lane.awakeCount == 1)
        #expect(bench.lane.take(64, for: 1).count == 1)
        // After the silent connection has received its answer, it takes jobs again.
        #expect(bench.lane.take(64, for: 2).isEmpty)
        #expect(bench.lane.take(64, for: 1).isEmpty)
        #expect(bench.lane.awakeCount == 0)
        #expect(!bench.lane.expire(at: moment + PipelineLane.patience))
        for job in jobs { #expect(job.failure.withLock { $0 } == nil) }
    }

    @Test("A woken connection is lost → another connection takes its jobs")
    func lost() throws {
        let bench = try Bench(gathering: 4)
        bench.submit()
        #expect(bench.lane.awakeCount == 1)
        bench.lane.rests(2)
        #expect(bench.lane.awakeCount == 1)
        bench.lane.rests(1)
        bench.lane.rests(0)
        #expect(bench.lane.awakeCount == 0)
        #expect(bench.alarms.count == 1)
        let late = bench.submit()
        #expect(!bench.lane.expire(at: bench.clock.monotonic + PipelineLane.patience))
        #expect(late[0].failure.withLock { $0 } == .store(.unavailable("PostgreSQL is not reached")))
    }

    @Test("A connection fails → its jobs return to the front of the queue, and fail after waiting too long")
    func givenBack() throws {
        let bench = try Bench(gathering: 0)
        let (job, other) = (bench.submit()[0], bench.submit()[0])
        let taken = bench.lane.take(1, for: 2)
        #expect(taken.count == 1)
        bench.lane.giveBack(job)
        #expect(job.failure.withLock { $0 } == nil && bench.lane.waitingCount == 2)
        #expect(bench.lane.take(1, for: 2).first === job)
        bench.clock.advance(.seconds(5))
        bench.lane.giveBack(job)
        #expect(job.failure.withLock { $0 } == .store(.unavailable("PostgreSQL is not reached")))
        #expect(bench.lane.waitingCount == 1)
        withExtendedLifetime(other) {}
    }
}
