/// Runs every job of a simulation on the calling thread.
///
/// The seed decides which of the ready jobs runs next. The simulated time moves on only when all jobs wait.
///
/// All state of a simulation is used only on this thread. So its types can be `@unchecked Sendable`.
final class Scheduler: @unchecked Sendable {
    private struct Timer {
        let at: Int
        let order: Int
        let body: () -> Void
    }

    /// The random numbers of the run, which the seed determines.
    var random: SeededRandom
    /// The present moment, in milliseconds since the simulation began.
    private(set) var now = 0
    /// The number of jobs that have run so far.
    private(set) var steps = 0
    private var ready: [(job: UnownedJob, lane: Lane)] = []
    /// The timers as a binary heap, with the earliest timer first.
    private var timers: [Timer] = []
    private var order = 0

    init(seed: UInt64) { random = SeededRandom(seed: seed) }

    func add(_ job: UnownedJob, _ lane: Lane) { ready.append((job, lane)) }

    /// Calls `body` when this number of milliseconds has passed in the simulation.
    func after(_ milliseconds: Int, _ body: @escaping () -> Void) {
        order += 1
        timers.append(Timer(at: now + max(milliseconds, 0), order: order, body: body))
        var child = timers.count - 1
        while child > 0, Self.isEarlier(timers[child], timers[(child - 1) / 2]) {
            timers.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    /// Runs the jobs until the given moment, or until `stop` returns true.
    func run(until end: Int, stop: () -> Bool = { false }) {
        while !stop() {
            if !ready.isEmpty {
                let index = ready.count == 1 ? 0 : random.number(0...ready.count - 1)
                let (job, lane) = ready[index]
                ready.swapAt(index, ready.count - 1)
                ready.removeLast()
                steps += 1
                job.runSynchronously(on: lane.asUnownedTaskExecutor())
            } else if let first = timers.first, first.at <= end {
                now = first.at
                removeFirst()
                first.body()
            } else {
                now = end
                return
            }
        }
    }

    /// Drops all timers and jobs, and releases the objects that they hold.
    func clear() {
        timers = []
        ready = []
    }

    private func removeFirst() {
        timers.swapAt(0, timers.count - 1)
        timers.removeLast()
        var parent = 0
        while true {
            var least = parent
            for child in [2 * parent + 1, 2 * parent + 2]
            where child < timers.count && Self.isEarlier(timers[child], timers[least]) { least = child }
            if least == parent { return }
            timers.swapAt(parent, least)
            parent = least
        }
    }

    private static func isEarlier(_ left: Timer, _ right: Timer) -> Bool {
        (left.at, left.order) < (right.at, right.order)
    }
}
