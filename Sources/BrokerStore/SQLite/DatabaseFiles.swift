import Synchronization

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The database's files: a directory of mode 0700, files of mode 0600 under any umask, and a lock file that is held until the
/// store is closed (SEC-51, SEC-127).
///
/// On Linux, the database file itself is locked too, because the lock file can be renamed or removed, and hard links give a
/// database several names. The descriptor for this lock is opened before SQLite opens the file, and closed after SQLite has
/// closed the file. Closing any descriptor of a file drops the process's POSIX locks on it, and SQLite relies on those.
///
/// The locks end with `release`, or when the last reference to this object is gone.
final class DatabaseFiles: Sendable {
    /// The database file.
    let path: String
    /// Guards the locked descriptors; empty once they are released.
    private let locks: Mutex<[Int32]>

    /// Prepares the directory and the files, and takes the lock.
    ///
    /// The call blocks the thread.
    init(path: String) throws(StoreOpenFailure) {
        self.path = path
        try Self.prepareDirectory(Self.directory(of: path), databaseName: Self.name(of: path))
        locks = Mutex([try Self.takeLock(on: path + ".lock", of: path)])
        do throws(StoreOpenFailure) {
            // SQLite copies the database file's mode to -wal and -shm, so the database file is created first.
            #if os(Linux)
                let database = try Self.takeLock(on: path, of: path)
                locks.withLock { $0.append(database) }
            #else
                // On other systems, `flock` and SQLite's POSIX locks exclude each other, even within one process. So only
                // create the file.
                close(try Self.openFile(path))
            #endif
            for suffix in ["-wal", "-shm", "-journal"] { try Self.tighten(path + suffix) }
        } catch {
            release()
            throw error
        }
    }

    deinit { release() }

    /// Releases the lock, so that the database can be opened again.
    func release() {
        let descriptors = locks.withLock { descriptors in
            defer { descriptors = [] }
            return descriptors
        }
        for descriptor in descriptors.reversed() { close(descriptor) }
    }

    /// Creates a new file of mode 0600 for a backup; refuses an existing one.
    static func createFile(_ path: String) throws(StoreOpenFailure) {
        let descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw .file(path, reason: reason()) }
        defer { close(descriptor) }
        guard fchmod(descriptor, 0o600) == 0 else { throw .file(path, reason: reason()) }
    }

    /// Removes an unfinished file that the broker made.
    static func removeFile(_ path: String) { unlink(path) }

    /// Copies a backup into a new file of mode 0600, and syncs it to disk.
    static func copyFile(_ source: BackupFile, to path: String) throws(StoreOpenFailure) {
        try createFile(path)
        let to = open(path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC)
        guard to >= 0 else { throw .file(path, reason: reason()) }
        defer { close(to) }
        var buffer = [UInt8](repeating: 0, count: 1 << 20)
        var offset: off_t = 0
        while true {
            let count = pread(source.descriptor, &buffer, buffer.count, offset)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw .file(source.path, reason: reason()) }
            if count == 0 { break }
            offset += off_t(count)
            var written = 0
            while written < count {
                let step = buffer[written..<count].withUnsafeBytes { write(to, $0.baseAddress, $0.count) }
                if step < 0, errno == EINTR { continue }
                guard step > 0 else { throw .file(path, reason: reason()) }
                written += step
            }
        }
        guard fsync(to) == 0 else { throw .file(path, reason: reason()) }
    }

    /// Moves `copy` to the database's path, and keeps the old database with its log under the name `kept`.
    ///
    /// Returns false if the old file was empty and therefore dropped.
    func replace(with copy: String, keeping kept: String) throws(StoreOpenFailure) -> Bool {
        var status = stat()
        let isEmpty = stat(path, &status) == 0 && status.st_size == 0
        if !isEmpty {
            guard link(path, kept) == 0 else { throw .file(kept, reason: Self.reason()) }
            // If a log exists, it could not be merged and belongs to the old database, so it gets the same new name.
            for suffix in ["-wal", "-journal"] where access(path + suffix, F_OK) == 0 {
                guard rename(path + suffix, kept + suffix) == 0 else {
                    throw .file(path + suffix, reason: Self.reason())
                }
            }
        }
        for suffix in ["-wal", "-shm", "-journal"] { unlink(path + suffix) }
        guard rename(copy, path) == 0 else { throw .file(path, reason: Self.reason()) }
        try Self.syncDirectory(of: path)
        return !isEmpty
    }

    /// Syncs the directory of a file to disk, so that the file's name survives a crash.
    static func syncDirectory(of path: String) throws(StoreOpenFailure) {
        let folder = open(directory(of: path), O_RDONLY | O_CLOEXEC | O_DIRECTORY)
        guard folder >= 0 else { throw .directory(directory(of: path), reason: reason()) }
        defer { close(folder) }
        guard fsync(folder) == 0 else { throw .directory(directory(of: path), reason: reason()) }
    }

    /// Returns the size of a file; nil if it does not exist.
    static func size(_ path: String) -> Int? {
        var status = stat()
        return stat(path, &status) == 0 ? Int(status.st_size) : nil
    }

    private static func directory(of path: String) -> String {
        guard let slash = path.lastIndex(of: "/") else { return "." }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }

    private static func name(of path: String) -> String {
        guard let slash = path.lastIndex(of: "/") else { return path }
        return String(path[path.index(after: slash)...])
    }

    private static func reason() -> String { String(cString: strerror(errno)) }

    private static func prepareDirectory(_ directory: String, databaseName: String) throws(StoreOpenFailure) {
        if mkdir(directory, 0o700) == 0 {
            // `mkdir` applies the umask, which may remove bits from the mode, so set the mode explicitly.
            guard chmod(directory, 0o700) == 0 else { throw .directory(directory, reason: reason()) }
            return
        }
        guard errno == EEXIST else { throw .directory(directory, reason: reason()) }
        var status = stat()
        guard stat(directory, &status) == 0 else { throw .directory(directory, reason: reason()) }
        guard status.st_mode & S_IFMT == S_IFDIR else { throw .directory(directory, reason: "it is not a directory") }
        guard status.st_mode & 0o077 != 0 else { return }
        if status.st_uid == geteuid(), holdsOnly(directory, databaseName) {
            guard chmod(directory, 0o700) == 0 else { throw .directory(directory, reason: reason()) }
            return
        }
        // A directory with other contents keeps its mode, because the files' own modes keep other users out. But other users
        // must be unable to replace the files. In a directory such as /tmp, the sticky bit ensures this.
        guard status.st_mode & 0o022 == 0 || status.st_mode & S_ISVTX != 0 else { throw .looseDirectory(directory) }
    }

    /// Returns whether the directory contains only this database, so that its mode may be tightened.
    private static func holdsOnly(_ directory: String, _ databaseName: String) -> Bool {
        guard let stream = opendir(directory) else { return false }
        defer { closedir(stream) }
        while let entry = readdir(stream) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) { pointer in
                pointer.withMemoryRebound(to: CChar.self, capacity: MemoryLayout.size(ofValue: pointer.pointee)) {
                    String(cString: $0)
                }
            }
            guard name == "." || name == ".." || name.hasPrefix(databaseName) else { return false }
        }
        return true
    }

    /// Opens an existing file of the broker and sets its mode to 0600.
    static func openStanding(_ path: String) throws(StoreOpenFailure) -> Int32 { try openFile(path, making: 0) }

    private static func openFile(_ path: String, making: Int32 = O_CREAT) throws(StoreOpenFailure) -> Int32 {
        let descriptor = open(path, O_RDWR | making | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw errno == ELOOP || errno == EISDIR ? .foreignFile(path) : .file(path, reason: reason())
        }
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG, status.st_uid == geteuid() else {
            close(descriptor)
            throw .foreignFile(path)
        }
        guard status.st_mode & 0o777 == 0o600 || fchmod(descriptor, 0o600) == 0 else {
            close(descriptor)
            throw .file(path, reason: reason())
        }
        return descriptor
    }

    private static func tighten(_ path: String) throws(StoreOpenFailure) {
        var status = stat()
        guard lstat(path, &status) == 0 else { return }
        guard status.st_mode & S_IFMT == S_IFREG, status.st_uid == geteuid(), chmod(path, 0o600) == 0 else {
            throw .foreignFile(path)
        }
    }

    /// Opens and locks a file until its descriptor is closed.
    ///
    /// If another process has the lock, the error names `path`.
    static func takeLock(on file: String, of path: String) throws(StoreOpenFailure) -> Int32 {
        let descriptor = try openFile(file)
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            let busy = errno == EWOULDBLOCK
            let reason = reason()
            close(descriptor)
            throw busy ? .locked(path) : .file(file, reason: reason)
        }
        return descriptor
    }
}
