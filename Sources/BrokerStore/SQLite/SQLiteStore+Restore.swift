import Broker
import Dispatch
import GRDB

extension SQLiteStore {
    /// The result of a restore.
    package struct Restored: Sendable {
        package let copy: DatabaseCopy
        /// The old database's new name; nil if the old database was missing or empty.
        package let kept: String?
        /// The number of sessions that were live in the copy and were ended according to the endings file; nil without this
        /// file.
        package let ended: Int?
    }

    /// Replaces the database by a backup.
    ///
    /// The restore needs the database's lock, so it fails while a broker runs. First, SQLite checks the copy. Then `accept`
    /// checks it, and throws a sentence of its own to refuse it. The sessions in the endings file are ended in the copy
    /// before the copy takes the database's place. The old database stays in the directory, under a name with `stamp`.
    package static func restore(
        _ copy: BackupFile, to path: String, stamp: String, endings: String? = nil,
        accept: @escaping @Sendable (DatabaseCopy, EndingsSummary?) throws(StoreOpenFailure) -> Void
    ) async throws(StoreOpenFailure) -> Restored {
        let result: Result<Restored, StoreOpenFailure> = await withUnsafeContinuation { continuation in
            DispatchQueue.global().async {
                do throws(StoreOpenFailure) {
                    let restored = try restoreBlocking(copy, path, stamp, endings, accept)
                    continuation.resume(returning: .success(restored))
                } catch { continuation.resume(returning: .failure(error)) }
            }
        }
        return try result.get()
    }

    private static func restoreBlocking(
        _ copy: BackupFile, _ path: String, _ stamp: String, _ endings: String?,
        _ accept: @Sendable (DatabaseCopy, EndingsSummary?) throws(StoreOpenFailure) -> Void
    ) throws(StoreOpenFailure) -> Restored {
        let draft = path + ".restoring"
        let existed = DatabaseFiles.size(path) != nil
        let files = try DatabaseFiles(path: path)
        defer { files.release() }
        do throws(StoreOpenFailure) {
            // This process holds the lock, so an existing draft was left by a crash.
            DatabaseFiles.removeFile(draft)
            try DatabaseFiles.copyFile(copy, to: draft)
            let found: DatabaseCopy
            do throws(StoreOpenFailure) { found = try DatabaseCopy.inspectBlocking(draft) } catch {
                switch error {
                case .notOurs: throw .notOurs(copy.path)
                case .damaged: throw .damaged(copy.path)
                default: throw error
                }
            }
            let summary = try readEndings(endings) { _ in }
            try accept(found, summary)
            let ended = try summary.map { _ throws(StoreOpenFailure) in try end(endings, in: draft) }
            mergeLog(of: path)
            let kept = path + ".before-" + stamp
            let isKept = try files.replace(with: draft, keeping: kept)
            return Restored(copy: found, kept: isKept ? kept : nil, ended: ended)
        } catch {
            DatabaseFiles.removeFile(draft)
            // If the database was missing, taking its lock has created an empty file.
            if !existed, DatabaseFiles.size(path) == 0 { DatabaseFiles.removeFile(path) }
            throw error
        }
    }

    /// Reads the endings file; nil if the file is unset or missing.
    private static func readEndings(
        _ path: String?, each: (EndingEntry) throws -> Void
    ) throws(StoreOpenFailure) -> EndingsSummary? {
        guard let path, DatabaseFiles.size(path) != nil else { return nil }
        do {
            return try EndingsFile.read(path, each: each)
        } catch let failure as StoreOpenFailure {
            throw failure
        } catch let error as DatabaseError {
            throw .database(error.message ?? "\(error.resultCode)")
        } catch {
            throw .file(path, reason: "\(error)")
        }
    }

    /// Ends the endings file's sessions in a closed copy, and returns their number.
    private static func end(_ endings: String?, in copy: String) throws(StoreOpenFailure) -> Int {
        do {
            let queue = try DatabaseQueue(path: copy)
            defer { try? queue.close() }
            return try queue.writeWithoutTransaction { database in
                try database.execute(sql: "PRAGMA secure_delete = ON; PRAGMA synchronous = FULL")
                // An older schema lacks columns that an ending changes, so migrate the copy first.
                try migrate(database, allowed: true)
                var ended = 0
                try database.inTransaction(.immediate) {
                    _ = try readEndings(endings) { entry in
                        ended += try database.endSessions(.token(entry.tokenDigest), entry.reason, entry.at, limit: 1)
                            .ended
                            .count
                    }
                    return .commit
                }
                return ended
            }
        } catch let failure as StoreOpenFailure {
            throw failure
        } catch let error as DatabaseError {
            throw .database(error.message ?? "\(error.resultCode)")
        } catch {
            throw .database("the copy cannot be written")
        }
    }

    /// Merges the old database's log into the database.
    ///
    /// If the database is damaged, its log stays next to it.
    private static func mergeLog(of path: String) {
        guard let size = DatabaseFiles.size(path), size > 0, let queue = try? DatabaseQueue(path: path) else { return }
        try? queue.writeWithoutTransaction { database in _ = try database.checkpoint(.truncate) }
        try? queue.close()
    }
}
