import NIOCore

/// Runs a connection's tasks on the connection's own event loop: a request is read, worked on and answered by one
/// thread, without a hand-over to the concurrency pool and back.
///
/// Blocking calls have threads of their own in the stores, so that none reaches this one.
final class EventLoopExecutor: TaskExecutor {
    private let eventLoop: any EventLoop

    init(_ eventLoop: any EventLoop) { self.eventLoop = eventLoop }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        eventLoop.execute { [self] in job.runSynchronously(on: asUnownedTaskExecutor()) }
    }
}
