import Broker
import Synchronization

/// A thread that checks for jobs that wait too long, and sends the waiting notices.
///
/// The thread sleeps until it is signalled, and then ticks every 100 ms until the work is done.
final class StoreTicker: Sendable {
    private struct State {
        var lanes: [PipelineLane] = []
        var flush: (@Sendable () -> Void)?
        var isClosed = false
    }

    private static let interval = Duration.milliseconds(100)

    /// Guards the lanes and the flush handler.
    private let state = Mutex(State())
    private let isNeeded = Atomic<Bool>(false)
    private let wakeup: Wakeup

    /// Starts the ticker; nil if the system has no descriptor or thread left.
    init?() {
        guard let wakeup = Wakeup() else { return nil }
        self.wakeup = wakeup
        guard OSThread.start({ [self] in run() }) else { return nil }
    }

    func watch(_ lanes: [PipelineLane]) { state.withLock { $0.lanes = lanes } }

    /// Calls `flush` at the next tick after each signal.
    func onTick(_ flush: @escaping @Sendable () -> Void) { state.withLock { $0.flush = flush } }

    func signal() {
        guard !isNeeded.exchange(true, ordering: .acquiringAndReleasing) else { return }
        wakeup.signal()
    }

    func close() {
        state.withLock { $0.isClosed = true }
        wakeup.signal()
    }

    private func run() {
        var isAwake = false
        while true {
            _ = wakeup.wait(for: -1, events: 0, atMost: isAwake ? Self.interval : nil)
            let (lanes, flush, isClosed) = state.withLock { ($0.lanes, $0.flush, $0.isClosed) }
            if isClosed { return }
            guard isAwake else {
                // The first tick is one interval after the signal.
                isAwake = isNeeded.load(ordering: .acquiring)
                continue
            }
            isNeeded.store(false, ordering: .releasing)
            let now = MonotonicTime.now()
            var waits = false
            for lane in lanes where lane.expire(at: now) { waits = true }
            flush?()
            isAwake = waits || isNeeded.load(ordering: .acquiring)
        }
    }
}
