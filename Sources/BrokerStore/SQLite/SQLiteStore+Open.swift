import Broker
import Dispatch
import GRDB

extension SQLiteStore {
    /// Opens the database at `path`, creates missing directories and files, and migrates it unless `migrating` is false.
    ///
    /// The database is locked until the store is closed. Every error has a sentence for the operator.
    ///
    /// `reserve` is the disk space in bytes that is kept for endings on a full disk; 0 keeps none. With `endings`, the store
    /// also keeps endings in the endings file.
    package static func open(
        path: String, migrating: Bool = true, reserve: Int = ReserveFile.standardSize, endings: EndingsPlace? = nil,
        monotonic: @escaping @Sendable () -> Duration = MonotonicTime.now
    ) async throws(StoreOpenFailure) -> SQLiteStore {
        try await open(
            path: path, migrating: migrating, reserve: reserve, endings: endings, monotonic: monotonic, step: { _ in })
    }

    /// Opens the database, and reports the endings file's steps to `step`.
    static func open(
        path: String, migrating: Bool = true, reserve: Int = ReserveFile.standardSize, endings: EndingsPlace?,
        monotonic: @escaping @Sendable () -> Duration = MonotonicTime.now,
        step: @escaping @Sendable (EndingsStep) -> Void
    ) async throws(StoreOpenFailure) -> SQLiteStore {
        let result: Result<SQLiteStore, StoreOpenFailure> = await withUnsafeContinuation { continuation in
            DispatchQueue.global().async {
                do throws(StoreOpenFailure) {
                    continuation.resume(
                        returning: .success(
                            try openBlocking(
                                path, migrating: migrating, reserve: reserve, endings: endings, monotonic: monotonic,
                                step: step)))
                } catch { continuation.resume(returning: .failure(error)) }
            }
        }
        return try result.get()
    }

    /// Migrates the database and returns the schema's versions before and after.
    ///
    /// If several processes migrate at once, one of them does the work. The others wait for the lock for up to `waiting`, and
    /// then find the database migrated.
    package static func migrate(
        path: String, waiting: Duration = .zero
    ) async throws(StoreOpenFailure) -> (from: Int, to: Int) {
        let end = MonotonicTime.now() + waiting
        while true {
            do throws(StoreOpenFailure) {
                let store = try await open(path: path, migrating: false, reserve: 0)
                await store.close()
                return (Schema.newest, Schema.newest)
            } catch {
                switch error {
                case .needsMigration(let found, _):
                    do throws(StoreOpenFailure) {
                        let store = try await open(path: path, reserve: 0)
                        await store.close()
                        return (found, Schema.newest)
                    } catch { guard case .locked = error, MonotonicTime.now() < end else { throw error } }
                case .locked: guard MonotonicTime.now() < end else { throw error }
                default: throw error
                }
            }
            await withUnsafeContinuation { continuation in
                DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(20)) { continuation.resume() }
            }
        }
    }

    private static func openBlocking(
        _ path: String, migrating: Bool, reserve: Int, endings: EndingsPlace?,
        monotonic: @escaping @Sendable () -> Duration, step: @escaping @Sendable (EndingsStep) -> Void
    ) throws(StoreOpenFailure) -> SQLiteStore {
        let files = try DatabaseFiles(path: path)
        do {
            let pool = try DatabasePool(path: path, configuration: configuration)
            do {
                try pool.writeWithoutTransaction { database in
                    try requireOurs(database, path)
                    try setDurability(database)
                    try migrate(database, allowed: migrating)
                }
                let log = try endings.map { place throws in try openEndings(place, pool, step) }
                return SQLiteStore(
                    pool: pool, files: files,
                    reserve: reserve > 0 ? ReserveFile(path: path + ".reserve", size: reserve) : nil,
                    endingsLog: log, monotonic: monotonic)
            } catch {
                try? pool.close()
                throw error
            }
        } catch let failure as StoreOpenFailure {
            throw failure
        } catch let error as DatabaseError {
            if error.resultCode == .SQLITE_NOTADB { throw .notOurs(path) }
            throw .database(error.message ?? "\(error.resultCode)")
        } catch {
            throw .database("the database cannot be opened")
        }
    }

    /// Opens the endings file, and adds the endings that only the database has.
    ///
    /// Such endings exist after a crash between the two writes, or if the file is new.
    private static func openEndings(
        _ place: EndingsPlace, _ pool: DatabasePool, _ step: @escaping @Sendable (EndingsStep) -> Void
    ) throws -> EndingsLog {
        // Compare only the first eight bytes of each digest, to save memory. Among a million digests, the chance that two
        // have the same first bytes is less than one in ten million.
        var known: Set<UInt64> = []
        let file = try EndingsFile(place, step: step) { known.insert(beginning($0.tokenDigest)) }
        let missing = try pool.read { database in
            try database.rows(SessionSQL.tombstones, [:]) { columns -> EndingEntry? in
                let (tokenDigest, at) = (try? columns.digest(), try columns.time())
                guard let tokenDigest, let reason = EndReason(rawValue: try columns.text()),
                    !known.contains(beginning(tokenDigest))
                else { return nil }
                return EndingEntry(tokenDigest: tokenDigest, at: at, reason: reason)
            }.compactMap { $0 }
        }
        let log = EndingsLog(file, step: step)
        log.note(missing)
        return log
    }

    private static func beginning(_ tokenDigest: Digest) -> UInt64 {
        tokenDigest.bytes.prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
    }

    private static var configuration: Configuration {
        var configuration = Configuration()
        configuration.label = "coatcheck"
        configuration.busyMode = .timeout(5)
        configuration.maximumReaderCount = ReaderLanes.points + ReaderLanes.scans
        configuration.persistentReadOnlyConnections = true
        configuration.foreignKeysEnabled = false
        configuration.prepareDatabase { database in
            // `secure_delete` overwrites freed cells and pages (SEC-51). `temp_store` keeps temporary data in memory, because
            // temporary files would be in another directory with another mode.
            try database.execute(
                sql: """
                    PRAGMA secure_delete = ON;
                    PRAGMA temp_store = MEMORY;
                    PRAGMA trusted_schema = OFF;
                    PRAGMA cell_size_check = ON;
                    PRAGMA cache_size = -8192;
                    """)
        }
        return configuration
    }

    private static func requireOurs(_ database: Database, _ path: String) throws {
        let id = try Int32.fetchOne(database, sql: "PRAGMA application_id") ?? 0
        if id == Schema.applicationID { return }
        let tables =
            try Int.fetchOne(
                database, sql: "SELECT count(*) FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'") ?? 0
        guard id == 0, tables == 0 else { throw StoreOpenFailure.notOurs(path) }
        try database.execute(sql: "PRAGMA application_id = \(Schema.applicationID)")
    }

    /// Sets full durability.
    ///
    /// GRDB sets NORMAL, which loses commits at a power cut. A test that only kills the process would not notice this loss.
    private static func setDurability(_ database: Database) throws {
        try database.execute(sql: "PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 4000")
        // The writer needs only a small cache, because the readers' caches already keep the pages that busy sessions use.
        try database.execute(sql: "PRAGMA cache_size = -2048")
        let required: [(pragma: String, value: String)] = [
            ("journal_mode", "wal"), ("synchronous", "2"), ("secure_delete", "1"),
        ]
        for (pragma, value) in required {
            let actual = try DatabaseValue.fetchOne(database, sql: "PRAGMA \(pragma)") ?? .null
            let number = Int.fromDatabaseValue(actual).map { "\($0)" }
            guard String.fromDatabaseValue(actual) ?? number == value else {
                throw StoreOpenFailure.setting("\(pragma) = \(value)")
            }
        }
    }

    static func migrate(_ database: Database, allowed: Bool) throws {
        try database.inTransaction(.immediate) {
            if allowed { try database.execute(sql: Schema.versionTable) }
            let exists = try database.tableExists("schema_version")
            let found = exists ? try Int.fetchOne(database, sql: "SELECT max(version) FROM schema_version") ?? 0 : 0
            let readableFrom =
                exists ? try Int.fetchOne(database, sql: "SELECT max(readable_from) FROM schema_version") ?? 0 : 0
            guard readableFrom <= Schema.newest else {
                throw StoreOpenFailure.tooNew(found: found, known: Schema.newest)
            }
            for migration in Schema.migrations where migration.version > found {
                guard allowed else { throw StoreOpenFailure.needsMigration(found: found, known: Schema.newest) }
                try database.execute(sql: migration.sql)
                try database.execute(
                    sql: "INSERT INTO schema_version (version, readable_from) VALUES (:version, :readable_from)",
                    arguments: ["version": migration.version, "readable_from": migration.readableFrom])
            }
            return .commit
        }
    }
}
