/// The executor of one process's tasks.
///
/// While the process is paused, the executor keeps the jobs and does not run them.
final class Lane: TaskExecutor, @unchecked Sendable {
    let scheduler: Scheduler
    private var held: [UnownedJob] = []
    var isPaused = false {
        didSet {
            guard !isPaused else { return }
            for job in held { scheduler.add(job, self) }
            held = []
        }
    }

    init(_ scheduler: Scheduler) { self.scheduler = scheduler }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        if isPaused { held.append(job) } else { scheduler.add(job, self) }
    }

    /// Starts a task that runs only on this executor.
    func start(_ work: @escaping @Sendable () async -> Void) {
        Task(executorPreference: self) { await work() }
    }
}
