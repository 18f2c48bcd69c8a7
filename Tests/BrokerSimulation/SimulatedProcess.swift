import Broker
import BrokerTestSupport

/// One broker process, whose memory is lost in a crash, while the store survives.
final class SimulatedProcess: @unchecked Sendable {
    /// The pause between two comparisons with the store's clock, in seconds.
    private static let comparisonPause = 5
    /// The calendar time when every simulation begins, in milliseconds since 1970.
    static let begin: Int64 = 1_795_209_600_000
    static let publicURL = "https://auth.example.com"

    /// The name of the background work that runs.
    @TaskLocal static var work: String?

    /// The number of the process's place.
    ///
    /// A process that replaces this one gets the same number.
    let number: Int
    /// The number of this process among all that the run has started.
    ///
    /// It is the process's identity. An address in memory would differ between runs, and so would the order of a dictionary.
    let id: Int
    let lane: Lane
    let world: Simulation
    private(set) var isDead = false
    /// Whether the process takes requests.
    ///
    /// The process takes requests after the store's first answer.
    private var hasStarted = false
    /// The error of the process's wall clock, in milliseconds.
    var wallOffset = 0
    /// The end of the last time that this process alone is cut off from the store.
    private var cutOffUntil = 0
    /// The time when this process finds the store again after the last outage for all processes.
    private var searchesUntil = 0
    /// The time of the process's last pause or cut-off.
    private var disturbedAt = -1
    /// The time of the store's last failure for this process.
    var storeFailedAt = -1
    /// Actions that wait until the process continues.
    private var awake: [() -> Void] = []
    /// The notices of other processes; nil if there are no others.
    private(set) var notices: SimulatedNotices?
    private var broken: [Int: () -> Void] = [:]
    private var nextPromise = 0
    /// The keys of the process.
    let ring = SimulatedVault.Ring()
    /// The number of the certificate that the process shows to the provider, and the time when the process received it.
    private(set) var certificate: Int
    private(set) var renewedAt = -1
    private(set) var useCases: BrokerUseCases?
    /// The notices for listeners; nil after the process's death, like the use cases.
    private(set) var sessionNotices: SessionNotices?
    /// Returns whether the process believes its clock enough for an act.
    private var believes: ((TimedAct) -> Bool)?
    /// Called when the process has released its leases; nil unless an orderly stop has begun.
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
                // A real process checks the outbox every second. Here, a check every 20 s is enough in most weathers.
                try? await self.sleep(.seconds(world.weather.repeatsNewest > 0 ? 1 : 20))
                _ = try? await revocations.work()
            }
        }
        if world.weather.wallLeaps > 0 || world.weather.clocksComeBack {
            // The real broker looks for evidence of the time every two seconds. Here, the process looks every second.
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
            // The process takes requests only after the store has answered the check of the clock.
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

    /// Whether the process believes its clock enough to revoke tokens.
    var mayRevoke: Bool { believes?(.revoke) ?? false }

    /// The time until the process has the store again.
    var storeAwayFor: Int { max(0, max(world.awayUntil, searchesUntil, cutOffUntil) - world.scheduler.now) }

    /// The time that the process alone is still cut off from the store, or nil.
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

    /// Loses the store at the same time as all processes, and finds the store again at a moment of the process's own.
    func loseStore(until moment: Int) {
        searchesUntil = max(searchesUntil, moment)
        notices?.breakOff(for: moment - world.scheduler.now)
    }

    /// The name of a certificate in tokens.
    static func name(ofCertificate number: Int) -> String { "certificate-\(number)" }

    /// Shows a renewed certificate from now on.
    func shows(certificate renewed: Int) {
        guard !isDead, renewed > certificate else { return }
        (certificate, renewedAt) = (renewed, world.scheduler.now)
        world.noteTrouble()
    }

    /// Ends the faults of the process, because the weather is over.
    func clearUp() {
        lane.isPaused = false
        wake()
        wallOffset = 0
        let now = world.scheduler.now
        (cutOffUntil, searchesUntil) = (min(cutOffUntil, now), min(searchesUntil, now))
        disturbedAt = min(disturbedAt, now)
    }

    /// Whether the process has lived, run and reached the store since a moment.
    func isUndisturbed(since moment: Int) -> Bool { !isDead && !lane.isPaused && disturbedAt < moment }

    /// Whether the store has answered every call of the process since a moment.
    func storeHeldSince(_ moment: Int) -> Bool { storeFailedAt < moment && storeAwayFor == 0 }

    /// Whether the process has received all endings since a moment.
    func hasHeard(since moment: Int) -> Bool {
        guard let notices else { return true }
        return notices.hearsSince.map { $0 < moment } ?? false
    }

    /// Calls `body` now, or as soon as the process continues.
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

    /// The monotonic time.
    ///
    /// The time leaps when the process dies, so that all deadlines of the remaining work are over.
    var monotonic: Duration { .milliseconds(world.scheduler.now + (isDead ? 1_000_000_000 : 1_000_000)) }

    private func sleep(_ duration: Duration) async throws {
        let wake = promise(())
        world.scheduler.after(Int(duration.wholeMilliseconds)) { wake.resolve(()) }
        await wake.wait(orCancelled: ())
        if isDead || Task.isCancelled { throw CancellationError() }
    }

    /// Returns a promise that a crash resolves with `value`.
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

    /// Handles one request; returns the answer, or nil if the process died or the caller hung up first.
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

    /// Stops the process in an orderly way, and calls `farewell` after its last sweep, when the lease is released.
    ///
    /// The process serves requests until then, as a draining process does.
    func stop(_ farewell: @escaping @Sendable () -> Void) { self.farewell = farewell }

    /// Kills the process, so that it has no effect from now on.
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
