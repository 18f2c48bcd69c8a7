import Broker
import Dispatch
import Synchronization

/// Writes endings to the endings file after they are in the database.
///
/// Endings that arrive during a sync are written together. If a write to the file fails, it is retried every second. Until a
/// retry succeeds, callers get the answer that their endings are not kept. The unwritten endings stay in memory. There are at
/// most as many of them as there were live sessions.
final class EndingsLog: Sendable {
    private struct State {
        /// The entries that wait to be written, in order.
        var waiting: [EndingEntry] = []
        /// Sessions whose endings are not in the file yet.
        var unwritten: Set<Digest> = []
        var waiters: [(tokenDigests: [Digest], waiter: EndingsWaiter)] = []
        var isWriting = false
        var failure: String?
        var closed = false

        /// Returns whether the ending of at least one of these sessions is not in the file yet.
        func lacks(_ tokenDigests: [Digest]) -> Bool { tokenDigests.contains { unwritten.contains($0) } }
    }

    /// The longest time that an ending may wait for the file's disk.
    private static let patience = DispatchTimeInterval.seconds(10)
    private static let interval = DispatchTimeInterval.seconds(1)

    /// The file, which is used only on the queue.
    private nonisolated(unsafe) let file: EndingsFile
    private let step: @Sendable (EndingsStep) -> Void
    private let queue = DispatchQueue(label: "coatcheck.store.endings")
    /// The queue that detects a hanging disk.
    private let watch = DispatchQueue(label: "coatcheck.store.endings.watch")
    /// Guards the unwritten endings and their waiters.
    private let state = Mutex(State())

    init(_ file: sending EndingsFile, step: @escaping @Sendable (EndingsStep) -> Void) {
        self.file = file
        self.step = step
    }

    /// The number of endings that are not in the file yet.
    var unwrittenCount: Int { state.withLock { $0.unwritten.count } }

    /// The reason why the file fails; nil if it works.
    var failure: String? { state.withLock { $0.failure } }

    /// Queues endings that are in the database, and returns at once.
    func note(_ entries: [EndingEntry]) {
        guard !entries.isEmpty else { return }
        step(.noted)
        let start = state.withLock { state -> Bool in
            state.waiting += entries
            state.unwritten.formUnion(entries.map(\.tokenDigest))
            // If a write is in progress or a retry is scheduled, these endings are written with it.
            guard !state.isWriting, state.failure == nil, !state.closed else { return false }
            state.isWriting = true
            return true
        }
        if start { queue.async { self.write() } }
    }

    /// Waits until the endings of these sessions are in the file.
    ///
    /// With nil, waits for all endings that are queued now.
    ///
    /// Returns false if the file fails.
    func isWritten(_ tokenDigests: [Digest]?) async -> Bool {
        await withUnsafeContinuation { continuation in
            let waiter = EndingsWaiter(continuation)
            let (awaited, answer) = state.withLock { state -> ([Digest], Bool?) in
                // Wait only for the endings that are queued now. If later endings were included, the wait might never end.
                let tokenDigests = tokenDigests ?? Array(state.unwritten)
                guard state.lacks(tokenDigests) else { return (tokenDigests, true) }
                guard state.failure == nil, !state.closed else { return (tokenDigests, false) }
                state.waiters.append((tokenDigests, waiter))
                return (tokenDigests, nil)
            }
            if let answer {
                waiter.resume(answer)
                return
            }
            watch.asyncAfter(deadline: .now() + Self.patience) {
                if waiter.resume(false) { self.hangs(awaited) }
            }
        }
    }

    /// Notes that the disk hangs, so that later calls of `isWritten` fail at once until the disk answers.
    private func hangs(_ tokenDigests: [Digest]) {
        state.withLock { state in
            guard state.isWriting, state.failure == nil, state.lacks(tokenDigests) else { return }
            state.failure = "its disk does not answer"
            state.waiters = state.waiters.filter { !$0.waiter.isTold }
        }
    }

    /// Makes the file keep endings for a longer lifetime.
    func adopt(longestLifetime: Duration) { queue.async { self.file.adopt(longestLifetime: longestLifetime) } }

    /// Writes the remaining endings, including those that failed before, in one attempt.
    ///
    /// The call returns after at most `patience`, even if the disk hangs.
    func close() async {
        state.withLock { $0.closed = true }
        _ = await withUnsafeContinuation { continuation in
            let waiter = EndingsWaiter(continuation)
            queue.async {
                self.write()
                self.file.close()
                waiter.resume(true)
            }
            watch.asyncAfter(deadline: .now() + Self.patience) { waiter.resume(false) }
        }
    }

    private func write() {
        while true {
            let entries = state.withLock { state in
                defer { state.waiting = [] }
                return state.waiting
            }
            if entries.isEmpty {
                let isOver = state.withLock { state in
                    if state.waiting.isEmpty { state.isWriting = false }
                    return state.waiting.isEmpty
                }
                if isOver { return }
                continue
            }
            do throws(EndingsFailure) {
                try file.append(entries)
            } catch {
                return failed(entries, error.description)
            }
            let done = state.withLock { state -> [EndingsWaiter] in
                state.failure = nil
                state.unwritten.subtract(entries.map(\.tokenDigest))
                let waiters = state.waiters
                let stay = waiters.filter { state.lacks($0.tokenDigests) }
                let done = waiters.filter { !state.lacks($0.tokenDigests) }.map(\.waiter)
                state.waiters = stay
                return done
            }
            for waiter in done { waiter.resume(true) }
        }
    }

    private func failed(_ entries: [EndingEntry], _ reason: String) {
        let (waiters, triesAgain) = state.withLock { state in
            state.waiting = entries + state.waiting
            state.failure = reason
            state.isWriting = false
            defer { state.waiters = [] }
            return (state.waiters, !state.closed)
        }
        for (_, waiter) in waiters { waiter.resume(false) }
        guard triesAgain else { return }
        queue.asyncAfter(deadline: .now() + Self.interval) { [weak self] in
            guard let self, state.withLock({ !$0.closed }) else { return }
            write()
        }
    }
}

/// A caller that waits for endings to be kept.
///
/// Only the first answer counts.
final class EndingsWaiter: Sendable {
    /// Guards the continuation, which is nil after it was resumed.
    private let continuation: Mutex<UnsafeContinuation<Bool, Never>?>

    init(_ continuation: UnsafeContinuation<Bool, Never>) { self.continuation = Mutex(continuation) }

    /// Whether the waiter was answered.
    var isTold: Bool { continuation.withLock { $0 == nil } }

    /// Answers the waiter unless it was answered before.
    ///
    /// Returns whether this call answered the waiter.
    @discardableResult
    func resume(_ value: Bool) -> Bool {
        let waiting = continuation.withLock { continuation in
            defer { continuation = nil }
            return continuation
        }
        waiting?.resume(returning: value)
        return waiting != nil
    }
}
