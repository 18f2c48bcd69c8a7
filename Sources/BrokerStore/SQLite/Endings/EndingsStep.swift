/// A step in writing the endings file, for tests that examine the state after a crash.
enum EndingsStep: Sendable, Equatable, CaseIterable {
    /// The endings are in the database, but not yet in the file.
    case noted
    /// The lines are written to the file, but may not be on disk.
    case written
    /// The lines are on disk, but the callers that wait for them have not been answered.
    case synced
    /// The shorter file is complete and on disk, next to the old file.
    case rewritten
    /// The shorter file has replaced the old file.
    case renamed
}
