import Broker
import Dispatch
import GRDB

extension SQLiteStore {
    /// Puts a backup in the database's place, under the database's lock: a running broker makes it refuse.
    ///
    /// The copy is looked through first, by SQLite and by `accept`, which throws its own sentence. What stood there is
    /// kept beside it under a name with `stamp`; returned is what the copy holds, and that name.
    package static func restore(
        _ copy: String, to path: String, stamp: String,
        accept: @escaping @Sendable (DatabaseCopy) throws(StoreOpenFailure) -> Void
    ) async throws(StoreOpenFailure) -> (copy: DatabaseCopy, kept: String?) {
        typealias Restored = (copy: DatabaseCopy, kept: String?)
        let result: Result<Restored, StoreOpenFailure> = await withUnsafeContinuation { continuation in
            DispatchQueue.global().async {
                do throws(StoreOpenFailure) {
                    let restored = try restoreBlocking(copy, path, stamp, accept)
                    continuation.resume(returning: .success(restored))
                } catch { continuation.resume(returning: .failure(error)) }
            }
        }
        return try result.get()
    }

    private static func restoreBlocking(
        _ copy: String, _ path: String, _ stamp: String,
        _ accept: @Sendable (DatabaseCopy) throws(StoreOpenFailure) -> Void
    ) throws(StoreOpenFailure) -> (copy: DatabaseCopy, kept: String?) {
        guard let size = DatabaseFiles.size(copy) else { throw .file(copy, reason: "there is no such file") }
        guard size > 0 else { throw .notOurs(copy) }
        if let log = DatabaseFiles.size(copy + "-wal"), log > 0 {
            throw .refused("\(copy)-wal stands beside it: this is no backup but a database at work, or a copy of one")
        }
        let draft = path + ".restoring"
        let existed = DatabaseFiles.size(path) != nil
        let files = try DatabaseFiles(path: path)
        defer { files.release() }
        do throws(StoreOpenFailure) {
            // What a crash left behind is nobody's.
            DatabaseFiles.removeFile(draft)
            try DatabaseFiles.copyFile(copy, to: draft)
            let found: DatabaseCopy
            do throws(StoreOpenFailure) { found = try DatabaseCopy.inspectBlocking(draft) } catch {
                switch error {
                case .notOurs: throw .notOurs(copy)
                case .damaged: throw .damaged(copy)
                default: throw error
                }
            }
            try accept(found)
            mergeLog(of: path)
            let kept = path + ".before-" + stamp
            return (found, try files.replace(with: draft, keeping: kept) ? kept : nil)
        } catch {
            DatabaseFiles.removeFile(draft)
            // An empty file that only the lock has made.
            if !existed, DatabaseFiles.size(path) == 0 { DatabaseFiles.removeFile(path) }
            throw error
        }
    }

    /// Merges the log of the database that is put aside; one that is damaged keeps its log beside it.
    private static func mergeLog(of path: String) {
        guard let size = DatabaseFiles.size(path), size > 0, let queue = try? DatabaseQueue(path: path) else { return }
        try? queue.writeWithoutTransaction { database in _ = try database.checkpoint(.truncate) }
        try? queue.close()
    }
}
