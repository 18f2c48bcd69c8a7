/// The reason for which a database is not opened, as a sentence for the operator.
package enum StoreOpenFailure: Error, Sendable, Equatable, CustomStringConvertible {
    /// The directory cannot be made or used.
    case directory(String, reason: String)
    /// Others may write in the directory: they could put another file in the database's place.
    case looseDirectory(String)
    /// The file belongs to another user, or is not an ordinary file.
    case foreignFile(String)
    /// The file cannot be opened or created.
    case file(String, reason: String)
    /// Another process has it open (SEC-127).
    case locked(String)
    /// The file is some other program's database.
    case notOurs(String)
    /// The file is no list of endings.
    case notEndings(String)
    /// A newer version changed the schema in a way that this one cannot work with (SEC-130).
    case tooNew(found: Int, known: Int)
    /// A copy that SQLite's own check finds faulty.
    case damaged(String)
    /// Was not taken, for a reason.
    case refused(String)
    /// The schema is older, and migrating was not asked for.
    case needsMigration(found: Int, known: Int)
    /// The address of a PostgreSQL cannot be read.
    case address(String)
    /// PostgreSQL is not reached, or does not let us in.
    case unreachable(String)
    /// PostgreSQL answers and is not set up as it has to be.
    case server(String)
    /// SQLite would not set what durability stands on.
    case setting(String)
    /// SQLite reported an error.
    case database(String)

    package var description: String {
        switch self {
        case .directory(let path, let reason): "the directory \(path) cannot be used: \(reason)"
        case .looseDirectory(let path):
            "others may write in the directory \(path): give the database a directory of its own, with mode 0700"
        case .foreignFile(let path): "\(path) belongs to another user or is not an ordinary file"
        case .file(let path, let reason): "\(path) cannot be opened: \(reason)"
        case .locked(let path):
            "another process has \(path) open: SQLite serves one process; use PostgreSQL for replicas"
        case .notOurs(let path): "\(path) is not a Coatcheck database"
        case .notEndings(let path): "\(path) is not a file of endings, or its first line is damaged"
        case .tooNew(let found, let known):
            "the database's schema is version \(found), this program knows \(known): use a newer Coatcheck"
        case .needsMigration(let found, let known):
            "the database's schema is version \(found), this program needs \(known): run `coatcheck migrate`"
        case .damaged(let path): "\(path) is damaged: SQLite's integrity check does not pass"
        case .refused(let reason): reason
        case .address(let reason): "the store's URL cannot be used: \(reason)"
        case .unreachable(let reason): "PostgreSQL is not reached: \(reason)"
        case .server(let reason): "PostgreSQL: \(reason)"
        case .setting(let name): "SQLite did not accept \(name)"
        case .database(let message): "SQLite: \(message)"
        }
    }
}
