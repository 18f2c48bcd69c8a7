#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// An open backup that is to be restored.
///
/// The file is opened first, because the user who may read the backup can differ from the user who must create the new
/// database file.
package final class BackupFile: Sendable {
    let path: String
    let descriptor: Int32

    /// Opens the backup.
    ///
    /// Refuses an empty file. Also refuses a database with a log (`-wal`), because such a database is in use, or was copied
    /// while in use.
    package init(_ path: String) throws(StoreOpenFailure) {
        self.path = path
        guard let size = DatabaseFiles.size(path) else { throw .file(path, reason: "there is no such file") }
        guard size > 0 else { throw .notOurs(path) }
        if let log = DatabaseFiles.size(path + "-wal"), log > 0 {
            throw .refused(
                "\(path)-wal exists next to it, so this is a database in use or a copy of one; use a file that coatcheck backup wrote"
            )
        }
        descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw .file(path, reason: String(cString: strerror(errno))) }
    }

    deinit { close(descriptor) }
}
