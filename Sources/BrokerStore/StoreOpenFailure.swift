/// The reason why a database is not opened, as a sentence for the operator.
package enum StoreOpenFailure: Error, Sendable, Equatable, CustomStringConvertible {
    /// The directory cannot be made or used.
    case directory(String, reason: String)
    /// Other users may write in the directory, so they could replace the database file.
    case looseDirectory(String)
    /// The file belongs to another user, or is not an ordinary file.
    case foreignFile(String)
    /// The file cannot be opened or created.
    case file(String, reason: String)
    /// Another process has it open (SEC-127).
    case locked(String)
    /// The file is another program's database.
    case notOurs(String)
    /// The file is not an endings file.
    case notEndings(String)
    /// A newer version changed the schema in an incompatible way (SEC-130).
    case tooNew(found: Int, known: Int)
    /// SQLite's own check found the copy faulty.
    case damaged(String)
    /// The file was refused for the given reason.
    case refused(String)
    /// The schema is older, and migrating is switched off.
    case needsMigration(found: Int, known: Int)
    /// The PostgreSQL address cannot be parsed.
    case address(String)
    /// PostgreSQL is unreachable or refuses the login.
    case unreachable(String)
    /// PostgreSQL answers, but is set up wrongly.
    case server(String)
    /// SQLite refused a setting that durability depends on.
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
        case .damaged(let path): "\(path) is damaged: SQLite's integrity check failed"
        case .refused(let reason): reason
        case .address(let reason): "the store's URL cannot be used: \(reason)"
        case .unreachable(let reason): "PostgreSQL is not reached: \(reason)"
        case .server(let reason): "PostgreSQL: \(reason)"
        case .setting(let name): "SQLite did not accept \(name)"
        case .database(let message): "SQLite: \(message)"
        }
    }
}
