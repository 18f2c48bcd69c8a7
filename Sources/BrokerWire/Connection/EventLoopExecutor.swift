import NIOCore

/// Runs a connection's tasks on the connection's event loop.
///
/// One thread reads, handles and answers a request, without a switch to the concurrency pool and back. The event loop stays
/// free, because the stores run blocking calls on their own threads.
final class EventLoopExecutor: TaskExecutor {
    private let eventLoop: any EventLoop

    init(_ eventLoop: any EventLoop) { self.eventLoop = eventLoop }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        eventLoop.execute { [self] in job.runSynchronously(on: asUnownedTaskExecutor()) }
    }
}
