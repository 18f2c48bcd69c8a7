import Synchronization

/// The lowest level that is written, which a reload may change.
final class LogThreshold: Sendable {
    private let rank: Atomic<Int>

    init(_ level: LogSettings.Level) { rank = Atomic(level.rank) }

    /// Returns whether lines of a level are written.
    func takes(_ level: LogSettings.Level) -> Bool { level.rank >= rank.load(ordering: .relaxed) }

    /// Goes on with another level.
    func adopt(_ level: LogSettings.Level) { rank.store(level.rank, ordering: .relaxed) }
}
