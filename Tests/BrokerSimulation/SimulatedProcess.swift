import Broker
import BrokerTestSupport

/// One broker process.
///
/// A crash loses its memory, while the store survives.
final class SimulatedProcess: @unchecked Sendable {
    /// The time between two comparisons of the process's clock with the store's clock, in seconds.
    private static let comparisonPause = 5
    /// The calendar time when every simulation begins, in milliseconds since 1970.
    static let begin: Int64 = 1_795_209_600_000
    static let publicURL = "https://auth.example.com"

    /// The name of the background work that this task does; nil for a request.
    @TaskLocal static var work: String?

    /// The number of the process's position, counted from 0.
    ///
    /// After a crash, the process that replaces this process gets the same number.
    let number: Int
    /// The number of this process among all processes that the run has started.
    ///
    /// The number identifies the process. An address in memory would differ between runs, and therefore the order of dictionary
    /// entries, too.
    let id: Int
    let lane: Lane
    let world: Simulation
    private(set) var isDead = false
    /// Whether the process accepts requests.
    ///
    /// The process begins to accept requests after the store's first answer.
    private var hasStarted = false
    /// The difference between the process's wall clock and the true time, in milliseconds.
    var wallOffset = 0 {
        didSet { if abs(oldValue) > Self.smallOffset, wallOffset == 0 { clockSetAt = world.scheduler.now } }
    }
    /// The largest offset that the judge ignores.
    ///
    /// The judge remembers a larger one for the time `memory` after its end.
    private static let (smallOffset, memory) = (60_000, 60_000)
    /// The moment when a wrong wall clock was last set right.
    private var clockSetAt: Int?
    /// Whether the wall clock is wrong by more than a minute, or was set right within the last minute.
    ///
    /// A sign-in that began on the wrong clock seems too old on the right one.
    var judgesTimesWrongly: Bool {
        abs(wallOffset) > Self.smallOffset || clockSetAt.map { world.scheduler.now - $0 < Self.memory } ?? false
    }
    /// The end of the last cut between this process alone and the store.
    private var cutOffUntil = 0
    /// The moment when this process finds the store again after the last outage.
    ///
    /// An outage begins for all processes at once.
    private var searchesUntil = 0
    /// The moment when the process was last paused, or cut off from the store.
    private var disturbedAt = -1
    /// The moment when the store last failed for this process.
    var storeFailedAt = -1
    /// The actions to do when the pause of the process ends.
    private var awake: [() -> Void] = []
    /// The connection that brings other processes' notices; nil if this is the only process.
    private(set) var notices: SimulatedNotices?
    private var broken: [Int: () -> Void] = [:]
    private var nextPromise = 0
    /// The key ring of the process.
    let ring = SimulatedVault.Ring()
    /// The number of the certificate that the process uses at the provider, and the time when the process received this
    /// certificate.
    private(set) var certificate: Int
    private(set) var renewedAt = -1
    private(set) var useCases: BrokerUseCases?
    /// The event streams of this process's listeners; nil after the process has died.
    private(set) var sessionNotices: SessionNotices?
    /// Returns whether the process trusts its clock enough for an act.
    private var believes: ((TimedAct) -> Bool)?
    /// Called when an orderly stop has released the process's leases; nil unless such a stop has begun.
    private var farewell: (@Sendable () -> Void)?

    init(_ number: Int, _ world: Simulation) {
        self.number = number
        self.world = world
        id = world.nextProcessID()
        lane = Lane(world.scheduler)
        ring.newest = world.vault.ring.newest
        certificate = world.certificate
        let vault = SimulatedVault(scheduler: world.scheduler, ring: ring)
        let provider = SimulatedProvider(self, world)
        let store = SimulatedStore(self, world)
        var settings = BrokerSettings()
        settings.sessionsPerSubjectAndClient = world.weather.sessionLimit
        settings.forcedRefreshPause = .seconds(world.weather.forcedPause)
        settings.proofOrigins = ProofOrigins(publicURL: Self.publicURL)
        let machine = BrokerClock(
            now: { self.wallTime }, monotonic: { self.monotonic }, sleep: { try await self.sleep($0) })
        let isShared = world.weather.processes > 1
        let isRecorded = world.ports != nil
        let watch = isShared ? ClockWatch(correcting: machine) : ClockWatch()
        let context = BrokerContext(
            clock: isShared ? watch.corrected(machine) : machine,
            spawner: Spawner { name, work in
                guard !self.isDead else { return }
                self.lane.start { await Self.$work.withValue("\(name)") { await work() } }
            },
            events: EventSink { event in world.note(event, by: self) }, vault: vault,
            store: isRecorded ? RecordedStore(store, of: self) : store,
            providers: ProviderDirectory([isRecorded ? RecordedProvider(provider, of: self) : provider]),
            cache: SessionCache(),
            notices: SessionNotices(), settings: settings, watch: watch,
            shared: isShared ? store : nil)
        sessionNotices = context.notices
        believes = { watch.allows($0, context.clock) }
        useCases = BrokerUseCases(context, publicURL: Self.publicURL)
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
                // A real process checks the outbox every second. In most weathers, a check every 20 s is enough here.
                try? await self.sleep(.seconds(world.weather.repeatsNewest > 0 ? 1 : 20))
                _ = try? await revocations.work()
            }
        }
        if world.weather.wallLeaps > 0 || world.weather.clocksComeBack {
            // The real broker asks for evidence about its clock every two seconds. Here, the process asks every second.
            let inquiry = ClockInquiry(context, kernel: { nil }, sources: { [] })
            lane.start {
                while !self.isDead {
                    try? await self.sleep(.seconds(1))
                    try? await inquiry.look()
                }
            }
        }
        let sweeper = Sweeper(context, owner: "process \(id)")
        lane.start {
            // The process accepts requests only after it has compared its clock with the times in the store.
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

    /// Whether the process trusts its clock enough to revoke tokens.
    var mayRevoke: Bool { believes?(.revoke) ?? false }

    /// The time until the process can reach the store again; zero if it can now.
    var storeAwayFor: Int { max(0, max(world.awayUntil, searchesUntil, cutOffUntil) - world.scheduler.now) }

    /// The rest of the time that only this process is cut off from the store; nil if the process is connected.
    var cutOffFor: Int? {
        let rest = cutOffUntil - world.scheduler.now
        return rest > 0 ? rest : nil
    }

    /// Cuts the process off from the store.
    func cutOff(for milliseconds: Int) {
        guard !isDead else { return }
        world.noteTrouble()
        cutOffUntil = max(cutOffUntil, world.scheduler.now + milliseconds)
        world.authority.strike(self, .cutOff(milliseconds))
        disturbedAt = cutOffUntil
        notices?.breakOff(for: milliseconds)
    }

    /// Called when all processes lose the store.
    ///
    /// One process after the other finds the store again; this process finds it at `moment`.
    func loseStore(until moment: Int) {
        searchesUntil = max(searchesUntil, moment)
        notices?.breakOff(for: moment - world.scheduler.now)
    }

    /// The name that a provider's token has for the certificate with this number.
    static func name(ofCertificate number: Int) -> String { "certificate-\(number)" }

    /// Lets the process use a renewed certificate from now on.
    func shows(certificate renewed: Int) {
        guard !isDead, renewed > certificate else { return }
        (certificate, renewedAt) = (renewed, world.scheduler.now)
        world.noteTrouble()
    }

    /// Ends the faults of this process, because the part of the run with faults is over.
    func clearUp() {
        lane.isPaused = false
        wake()
        wallOffset = 0
        let now = world.scheduler.now
        (cutOffUntil, searchesUntil) = (min(cutOffUntil, now), min(searchesUntil, now))
        disturbedAt = min(disturbedAt, now)
    }

    /// Whether, since a given moment, the process was never paused, and was never cut off from the store.
    func isUndisturbed(since moment: Int) -> Bool { !isDead && !lane.isPaused && disturbedAt < moment }

    /// Whether, since a given moment, the store has answered every call of the process.
    func storeHeldSince(_ moment: Int) -> Bool { storeFailedAt < moment && storeAwayFor == 0 }

    /// Whether, since a given moment, the process has received all notices of other processes.
    func hasHeard(since moment: Int) -> Bool {
        guard let notices else { return true }
        return notices.hearsSince.map { $0 < moment } ?? false
    }

    /// Calls `body` now, or when the pause of the process ends.
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

    /// The process's monotonic clock.
    ///
    /// If the process dies, the clock leaps far ahead, so that all deadlines of the process's remaining work have passed.
    var monotonic: Duration { .milliseconds(world.scheduler.now + (isDead ? 1_000_000_000 : 1_000_000)) }

    private func sleep(_ duration: Duration) async throws {
        let wake = promise(())
        world.scheduler.after(Int(duration.wholeMilliseconds)) { wake.resolve(()) }
        await wake.wait(orCancelled: ())
        if isDead || Task.isCancelled { throw CancellationError() }
    }

    /// Returns a promise.
    ///
    /// If the process crashes, the promise gets `value`.
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

    /// Handles one request of a caller.
    ///
    /// Returns the answer; nil if the process died, or if the caller hung up first.
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
            guard !self.isDead else { return }
            let world = self.world
            world.ports?.add(
                "\(world.scheduler.now) \(self.number) answer: \(TraceWords(vault: world.vault).of(answer: result))")
            answer.resolve(result)
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

    /// Stops the process in an orderly way.
    ///
    /// After the process's last sweep, when its lease is released, `farewell` is called.
    ///
    /// Until then, the process still serves requests, as a real process does while it stops.
    func stop(_ farewell: @escaping @Sendable () -> Void) { self.farewell = farewell }

    /// Kills the process.
    ///
    /// From now on, its remaining tasks have no effect.
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
        believes = nil
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
