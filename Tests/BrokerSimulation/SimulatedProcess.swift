import Broker
import BrokerTestSupport

/// One broker process: its memory dies with it, the store does not.
final class SimulatedProcess: @unchecked Sendable {
    /// The pause after which a process asks the store for its time again.
    private static let comparisonPause = 5
    /// The calendar time at which every simulation begins.
    static let begin: Int64 = 1_795_209_600_000

    /// The name of the work that runs.
    @TaskLocal static var work: String?

    let number: Int
    let lane: Lane
    let world: Simulation
    private(set) var isDead = false
    /// Whether it takes requests: it has asked the store for the time.
    private var hasStarted = false
    /// The error of its wall clock.
    var wallOffset = 0
    /// The time until which it is cut off from the store.
    private var cutOffUntil = 0
    /// The time until which it has not found a store again that was away for all.
    private var searchesUntil = 0
    /// The time at which it was last disturbed: it stood still, or was cut off.
    private var disturbedAt = -1
    /// The time at which the store last failed it.
    var storeFailedAt = -1
    /// Jobs that wait for it to go on.
    private var awake: [() -> Void] = []
    /// Its hearing of other processes' endings; nil where there are none.
    private(set) var notices: SimulatedNotices?
    private var broken: [Int: () -> Void] = [:]
    private var nextPromise = 0
    /// The keys that it has.
    let ring = SimulatedVault.Ring()
    private(set) var useCases: BrokerUseCases?
    /// The notices that listeners hear of; nil once it is dead, as the use cases are.
    private(set) var sessionNotices: SessionNotices?
    /// The end that comes when it has given back what it holds; nil while nobody has told it to stop.
    private var farewell: (@Sendable () -> Void)?

    init(_ number: Int, _ world: Simulation) {
        self.number = number
        self.world = world
        lane = Lane(world.scheduler)
        ring.newest = world.vault.ring.newest
        let vault = SimulatedVault(scheduler: world.scheduler, ring: ring)
        let provider = SimulatedProvider(self, world)
        let store = SimulatedStore(self, world)
        var settings = BrokerSettings()
        settings.sessionsPerSubjectAndClient = world.weather.sessionLimit
        settings.forcedRefreshPause = .seconds(world.weather.forcedPause)
        let machine = BrokerClock(
            now: { self.wallTime }, monotonic: { self.monotonic }, sleep: { try await self.sleep($0) })
        let isShared = world.weather.processes > 1
        let watch = isShared ? ClockWatch(correcting: machine) : ClockWatch()
        let context = BrokerContext(
            clock: isShared ? watch.corrected(machine) : machine,
            spawner: Spawner { name, work in
                guard !self.isDead else { return }
                self.lane.start { await Self.$work.withValue("\(name)") { await work() } }
            },
            events: EventSink { event in world.note(event, by: self) }, vault: vault,
            store: store, providers: ProviderDirectory([provider]), cache: SessionCache(),
            notices: SessionNotices(), settings: settings, watch: watch)
        sessionNotices = context.notices
        useCases = BrokerUseCases(context, publicURL: "https://auth.example.com")
        let comparison = isShared ? ClockComparison(context, store) : nil
        if let comparison {
            notices = SimulatedNotices(self, world.scheduler)
            ReplicaNotices(context).listen(to: store)
            lane.start {
                while !self.isDead {
                    try? await comparison.look()
                    try? await self.sleep(.seconds(Self.comparisonPause))
                }
            }
        }
        let revocations = Revocations(context)
        lane.start {
            while !self.isDead {
                // In earnest the outbox is looked at every second.
                try? await self.sleep(.seconds(world.weather.repeatsNewest > 0 ? 1 : 20))
                _ = try? await revocations.work()
            }
        }
        if world.weather.wallLeaps > 0 || world.weather.clocksComeBack {
            // In earnest the outbox looks every second, and the watch over the clock every two.
            let inquiry = ClockInquiry(context, kernel: { nil }, sources: { [] })
            lane.start {
                while !self.isDead {
                    try? await self.sleep(.seconds(1))
                    try? await inquiry.look()
                }
            }
        }
        let sweeper = Sweeper(context, owner: "\(ObjectIdentifier(self))")
        lane.start {
            // A process that cannot ask the store when it starts does not start.
            while !self.isDead {
                for _ in 0..<3 where context.watch.ahead == nil { try? await comparison?.look() }
                do {
                    _ = try await Sweeper.checkClock(context)
                    self.hasStarted = true
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

    /// The time for which it is still without the store.
    var storeAwayFor: Int { max(0, max(world.awayUntil, searchesUntil, cutOffUntil) - world.scheduler.now) }

    /// The time for which it alone is still cut off from the store; nil when it is not.
    var cutOffFor: Int? {
        let rest = cutOffUntil - world.scheduler.now
        return rest > 0 ? rest : nil
    }

    /// Cuts it off from the store.
    func cutOff(for milliseconds: Int) {
        guard !isDead else { return }
        world.noteTrouble()
        cutOffUntil = max(cutOffUntil, world.scheduler.now + milliseconds)
        world.authority.strike(self, .cutOff(milliseconds))
        disturbedAt = cutOffUntil
        notices?.breakOff(for: milliseconds)
    }

    /// Loses the store with all others, and finds it again at a moment of its own.
    func loseStore(until moment: Int) {
        searchesUntil = max(searchesUntil, moment)
        notices?.breakOff(for: moment - world.scheduler.now)
    }

    /// The weather is over.
    func clearUp() {
        lane.isPaused = false
        wake()
        wallOffset = 0
        let now = world.scheduler.now
        (cutOffUntil, searchesUntil) = (min(cutOffUntil, now), min(searchesUntil, now))
        disturbedAt = min(disturbedAt, now)
    }

    /// Whether it has lived, gone on and had its way to the store since then.
    func isUndisturbed(since moment: Int) -> Bool { !isDead && !lane.isPaused && disturbedAt < moment }

    /// Whether the store has failed it in nothing since then.
    func storeHeldSince(_ moment: Int) -> Bool { storeFailedAt < moment && storeAwayFor == 0 }

    /// Whether it has heard of all endings since then.
    func hasHeard(since moment: Int) -> Bool {
        guard let notices else { return true }
        return notices.hearsSince.map { $0 < moment } ?? false
    }

    /// Does `body` now, or as soon as it goes on.
    func whenAwake(_ body: @escaping () -> Void) {
        if lane.isPaused { awake.append(body) } else { body() }
    }

    private func wake() {
        let all = awake
        awake = []
        for body in all { body() }
    }

    var wallTime: WallTime {
        WallTime(milliseconds: Self.begin + Int64(world.scheduler.now + wallOffset + world.wallLeap))
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
        guard !isDead, hasStarted, let useCases else { return nil }
        let task = Task(executorPreference: lane) {
            let result: Result<Value, BrokerProblem>
            do { result = .success(try await work(useCases)) } catch {
                result = .failure(error as? BrokerProblem ?? BrokerProblem(.internalError))
            }
            if !self.isDead { answer.resolve(result) }
        }
        let begun = world.scheduler.now
        if let patience {
            world.scheduler.after(patience) {
                guard answer.value == nil else { return }
                if patience >= User.patience { self.world.rules.unanswered(self, since: begun) }
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
        world.noteTrouble()
        isDead = true
        lane.isPaused = false
        let all = broken.sorted { $0.key < $1.key }
        broken = [:]
        for (_, resolve) in all { resolve() }
        useCases = nil
        sessionNotices = nil
    }

    func pause(_ milliseconds: Int) {
        guard !isDead, !lane.isPaused else { return }
        world.authority.strike(self, .pause(milliseconds))
        lane.isPaused = true
        disturbedAt = max(disturbedAt, world.scheduler.now + milliseconds)
        world.scheduler.after(milliseconds) {
            self.world.noteTrouble()
            self.lane.isPaused = false
            self.wake()
        }
    }
}
