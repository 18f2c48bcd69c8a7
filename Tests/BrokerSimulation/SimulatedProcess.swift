import Broker
import BrokerStore

/// One broker process: its memory dies with it, the store does not.
final class SimulatedProcess: @unchecked Sendable {
    let number: Int
    let lane: Lane
    let world: Simulation
    private(set) var isDead = false
    /// How far its wall clock is off.
    var wallOffset = 0
    private var broken: [Int: () -> Void] = [:]
    private var nextPromise = 0
    private(set) var useCases: BrokerUseCases?
    /// What comes when it has given back what it holds; nil while nobody has told it to stop.
    private var farewell: (@Sendable () -> Void)?

    init(_ number: Int, _ world: Simulation) {
        self.number = number
        self.world = world
        lane = Lane(world.scheduler)
        let provider = SimulatedProvider(self, world)
        let context = BrokerContext(
            clock: BrokerClock(
                now: { self.wallTime }, monotonic: { self.monotonic }, sleep: { try await self.sleep($0) }),
            spawner: Spawner { _, work in if !self.isDead { self.lane.start(work) } },
            events: EventSink { event in world.note(event) }, vault: world.vault,
            store: SimulatedStore(self, world), providers: ProviderDirectory([provider]), cache: SessionCache(),
            notices: SessionNotices(), settings: BrokerSettings())
        useCases = BrokerUseCases(context, publicURL: "https://auth.example.com")
        let revocations = Revocations(context)
        lane.start {
            while !self.isDead {
                try? await self.sleep(.seconds(20))
                _ = try? await revocations.work()
            }
        }
        if world.weather.wallLeaps > 0 {
            // In earnest the outbox looks every second.
            lane.start {
                while !self.isDead {
                    try? await self.sleep(.seconds(1))
                    _ = context.watch.believes(context.clock)
                }
            }
        }
        let sweeper = Sweeper(context, owner: "\(ObjectIdentifier(self))")
        lane.start {
            // A process that cannot ask the store when it starts does not start.
            while !self.isDead {
                do {
                    _ = try await Sweeper.checkClock(context)
                    break
                } catch { try? await self.sleep(.seconds(1)) }
            }
            while !self.isDead {
                try? await self.sleep(.seconds(5))
                if let farewell = self.farewell {
                    try? await sweeper.stop()
                    return farewell()
                }
                _ = try? await sweeper.sweep()
            }
        }
    }

    var wallTime: WallTime {
        WallTime(milliseconds: 1_795_209_600_000 + Int64(world.scheduler.now + wallOffset + world.wallLeap))
    }

    /// A dead process has no time left: whatever still runs of it ends.
    var monotonic: Duration { .milliseconds(world.scheduler.now + (isDead ? 1_000_000_000 : 1_000_000)) }

    private func sleep(_ duration: Duration) async throws {
        let wake = promise(())
        world.scheduler.after(Int(duration.wholeMilliseconds)) { wake.resolve(()) }
        await wake.wait(orCancelled: ())
        if isDead || Task.isCancelled { throw CancellationError() }
    }

    /// Returns a promise that a crash keeps with `value`.
    func promise<Value: Sendable>(_ value: Value) -> Promise<Value> {
        let promise = Promise<Value>()
        guard !isDead else {
            promise.resolve(value)
            return promise
        }
        nextPromise += 1
        broken[nextPromise] = { promise.resolve(value) }
        return promise
    }

    /// Handles one request: the answer, or nil when the process died or the caller hung up first.
    func serve<Value: Sendable>(
        hangUpAfter patience: Int?, _ work: @escaping @Sendable (BrokerUseCases) async throws -> Value
    ) async -> Result<Value, BrokerProblem>? {
        let answer = promise(Result<Value, BrokerProblem>?.none)
        guard !isDead, let useCases else { return nil }
        let task = Task(executorPreference: lane) {
            let result: Result<Value, BrokerProblem>
            do { result = .success(try await work(useCases)) } catch {
                result = .failure(error as? BrokerProblem ?? BrokerProblem(.internalError))
            }
            if !self.isDead { answer.resolve(result) }
        }
        if let patience {
            world.scheduler.after(patience) {
                guard answer.value == nil else { return }
                answer.resolve(nil)
                task.cancel()
            }
        }
        return await answer.wait()
    }

    /// Stops it in order: it sweeps no more and gives the lease back; `farewell` comes then.
    ///
    /// It serves until then, as one does that drains.
    func stop(_ farewell: @escaping @Sendable () -> Void) { self.farewell = farewell }

    /// Kills it: nothing it does from now on has an effect.
    func crash() {
        guard !isDead else { return }
        world.authority.strike(self, .crash)
        isDead = true
        lane.isPaused = false
        let all = broken.sorted { $0.key < $1.key }
        broken = [:]
        for (_, resolve) in all { resolve() }
        useCases = nil
    }

    func pause(_ milliseconds: Int) {
        guard !isDead, !lane.isPaused else { return }
        world.authority.strike(self, .pause(milliseconds))
        lane.isPaused = true
        world.scheduler.after(milliseconds) { self.lane.isPaused = false }
    }
}
