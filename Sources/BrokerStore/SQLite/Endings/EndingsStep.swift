/// A moment in the writing of the endings file, for tests that look at what a crash would leave there.
enum EndingsStep: Sendable, Equatable, CaseIterable {
    /// The endings are in the database, and not in the file.
    case noted
    /// The lines are written, and not known to be on disk.
    case written
    /// They are on disk, and nobody has been told.
    case synced
    /// A shorter file is whole and stands beside the old one.
    case rewritten
    /// It stands in its place.
    case renamed
}
