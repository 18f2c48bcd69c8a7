import Foundation
import Synchronization

/// Reads files on demand, each time on a new thread.
///
/// A file may block its reader, for example on a hanging mount. The next reading and the end of the process do not wait for a
/// blocked reader. Values are used one after the other. A value that arrives after the value of a later reading is discarded.
final class Rereading<Value: Sendable>: Sendable {
    private struct State {
        var begun = 0
        var underWay = 0
        /// The number of the newest value that was used.
        var taken = 0
        var isStopped = false
    }

    /// The largest number of readings that may be in progress at the same time.
    ///
    /// Each hanging reading keeps a thread.
    static var maximum: Int { 4 }
    /// The longest time before a reading counts as hanging.
    static var patience: Duration { .seconds(5) }

    private let sleep: @Sendable (Duration) async throws -> Void
    private let take: @Sendable (Value) -> Void
    private let isLate: @Sendable () -> Void
    /// Guards the state, and ensures that one value is handled at a time.
    private let state = Mutex(State())

    /// Creates the reader.
    ///
    /// `take` uses a value, and `isLate` is called when a reading hangs.
    init(
        sleep: @escaping @Sendable (Duration) async throws -> Void, isLate: @escaping @Sendable () -> Void,
        take: @escaping @Sendable (Value) -> Void
    ) {
        self.sleep = sleep
        self.isLate = isLate
        self.take = take
    }

    /// Whether a reading is in progress.
    var isReading: Bool { state.withLock { $0.underWay > 0 } }

    /// Begins to read, and returns in one of three cases: the reading has ended; it hangs; or the task is cancelled.
    ///
    /// Returns false without reading if too many readings are in progress, or after `stop`. The value of a hanging reading is
    /// used when it arrives.
    func run(_ read: @escaping @Sendable () -> Value) async -> Bool {
        let number = state.withLock { state -> Int? in
            guard state.underWay < Self.maximum, !state.isStopped else { return nil }
            state.underWay += 1
            state.begun += 1
            return state.begun
        }
        guard let number else { return false }
        let (done, end) = AsyncStream.makeStream(of: Never.self)
        Thread.detachNewThread { [self] in
            finish(number, read())
            end.finish()
        }
        let hangs = await withTaskGroup(of: Bool.self) { group in
            group.addTask {
                for await _ in done {}
                return false
            }
            group.addTask { [sleep] in
                do { try await sleep(Self.patience) } catch { return false }
                return true
            }
            defer { group.cancelAll() }
            return await group.next() ?? false
        }
        if hangs { isLate() }
        return true
    }

    private func finish(_ number: Int, _ value: Value) {
        state.withLock { state in
            state.underWay -= 1
            guard number > state.taken, !state.isStopped else { return }
            state.taken = number
            take(value)
        }
    }

    /// Stops the use of values.
    ///
    /// When this call returns, a use in progress has ended.
    func stop() { state.withLock { $0.isStopped = true } }
}
