import Foundation
import Synchronization

/// Reads files again whenever it is asked to, each time on a thread of its own: a file that blocks (a mount that hangs)
/// holds up neither the next reading nor the end of the process.
///
/// Values that were read are taken one after the other. One that comes back after a newer one was taken is thrown away.
final class Rereading<Value: Sendable>: Sendable {
    private struct State {
        var begun = 0
        var underWay = 0
        /// The number of the newest that was taken.
        var taken = 0
        var isStopped = false
    }

    /// The most readings that may hang at a time: each keeps a thread.
    static var maximum: Int { 4 }
    /// The time for which a reading is waited for before it is said to hang.
    static var patience: Duration { .seconds(5) }

    private let sleep: @Sendable (Duration) async throws -> Void
    private let take: @Sendable (Value) -> Void
    private let isLate: @Sendable () -> Void
    /// Guards what was taken, and that one is taken at a time.
    private let state = Mutex(State())

    /// Creates it: `take` gets what was read, `isLate` hears of a reading that hangs.
    init(
        sleep: @escaping @Sendable (Duration) async throws -> Void, isLate: @escaping @Sendable () -> Void,
        take: @escaping @Sendable (Value) -> Void
    ) {
        self.sleep = sleep
        self.isLate = isLate
        self.take = take
    }

    /// Whether a reading is under way.
    var isReading: Bool { state.withLock { $0.underWay > 0 } }

    /// Begins a reading, and returns when it was taken, hangs, or the task is cancelled; false when so many hang that none
    /// was begun.
    ///
    /// One that hangs is taken when it comes back.
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

    /// Takes nothing more: when it returns, nothing is being taken.
    func stop() { state.withLock { $0.isStopped = true } }
}
