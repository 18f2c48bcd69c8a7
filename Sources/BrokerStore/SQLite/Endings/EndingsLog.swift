import Broker
import Dispatch
import Synchronization

/// Brings endings into the endings file, after the database has them.
///
/// Endings that arrive while the disk syncs are written together. A file that takes nothing is tried every second;
/// until it does, whoever waits is told that the ending is not kept, and the memory holds what is missing: no more than
/// the sessions that lived.
final class EndingsLog: Sendable {
    private struct State {
        /// In the order in which they are to be written.
        var waiting: [EndingEntry] = []
        /// Sessions whose endings are not in the file yet.
        var unwritten: Set<Digest> = []
        var waiters: [(tokenDigests: [Digest], waiter: EndingsWaiter)] = []
        var isWriting = false
        var failure: String?
        var closed = false

        /// Whether the file lacks one of these.
        func lacks(_ tokenDigests: [Digest]) -> Bool { tokenDigests.contains { unwritten.contains($0) } }
    }

    /// The time for which an ending may wait for the file's disk.
    private static let patience = DispatchTimeInterval.seconds(10)
    private static let interval = DispatchTimeInterval.seconds(1)

    /// Touched on the queue alone.
    private nonisolated(unsafe) let file: EndingsFile
    private let step: @Sendable (EndingsStep) -> Void
    private let queue = DispatchQueue(label: "coatcheck.store.endings")
    /// The queue on which it is noticed that the disk hangs.
    private let watch = DispatchQueue(label: "coatcheck.store.endings.watch")
    /// Guards what is to be written and who waits for it.
    private let state = Mutex(State())

    init(_ file: sending EndingsFile, step: @escaping @Sendable (EndingsStep) -> Void) {
        self.file = file
        self.step = step
    }

    /// The number of endings that are not in the file yet.
    var unwrittenCount: Int { state.withLock { $0.unwritten.count } }

    /// The reason for which the file takes nothing; nil when it does.
    var failure: String? { state.withLock { $0.failure } }

    /// Takes endings that are in the database; returns at once.
    func note(_ entries: [EndingEntry]) {
        guard !entries.isEmpty else { return }
        step(.noted)
        let start = state.withLock { state -> Bool in
            state.waiting += entries
            state.unwritten.formUnion(entries.map(\.tokenDigest))
            // Where it fails the next try takes them along.
            guard !state.isWriting, state.failure == nil, !state.closed else { return false }
            state.isWriting = true
            return true
        }
        if start { queue.async { self.write() } }
    }

    /// Waits until these endings are in the file, or nil for all that are noted by now; false when it does not take them.
    func isWritten(_ tokenDigests: [Digest]?) async -> Bool {
        await withUnsafeContinuation { continuation in
            let waiter = EndingsWaiter(continuation)
            let (awaited, answer) = state.withLock { state -> ([Digest], Bool?) in
                // Endings that are noted from now on are others': whoever waited for them, too, might wait for ever.
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

    /// Has nobody else wait for a disk that does not answer, until it does.
    private func hangs(_ tokenDigests: [Digest]) {
        state.withLock { state in
            guard state.isWriting, state.failure == nil, state.lacks(tokenDigests) else { return }
            state.failure = "its disk does not answer"
            state.waiters = state.waiters.filter { !$0.waiter.isTold }
        }
    }

    /// Has the file keep endings for a longer life from now on.
    func adopt(longestLifetime: Duration) { queue.async { self.file.adopt(longestLifetime: longestLifetime) } }

    /// Writes what is left, and tries once more what the file did not take; a disk that hangs is not waited for.
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

/// Somebody who waits for endings to be kept, and is told once.
final class EndingsWaiter: Sendable {
    /// Guards the continuation; nil once it was resumed.
    private let continuation: Mutex<UnsafeContinuation<Bool, Never>?>

    init(_ continuation: UnsafeContinuation<Bool, Never>) { self.continuation = Mutex(continuation) }

    /// Whether it was told.
    var isTold: Bool { continuation.withLock { $0 == nil } }

    /// Tells it, unless it was told before; returns whether it was not.
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
