import Synchronization

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Disk space that is reserved for endings, in a file next to the database.
///
/// When the disk is full, the file is emptied.
final class ReserveFile: Sendable {
    /// The space, in bytes, for 1,000 endings that are written one by one while a reader prevents the reuse of SQLite's log.
    ///
    /// In measurements, such endings used 62 to 83 MB, depending on the length of the tokens.
    static let standardSize = 96 << 20

    private let path: String
    private let size: Int
    /// Allocates this many bytes of the disk to a file, and returns whether this succeeded.
    private let allocate: @Sendable (Int32, Int) -> Bool
    /// Guards whether the file exists.
    private let stands = Mutex(false)

    /// Creates the reserve and tries to make its file.
    init(path: String, size: Int, allocate: @escaping @Sendable (Int32, Int) -> Bool = ReserveFile.allocate) {
        self.path = path
        self.size = size
        self.allocate = allocate
        _ = make()
    }

    /// Whether the space is reserved.
    var isReady: Bool { stands.withLock { $0 } }

    /// Makes the file if it is missing; returns false if the disk lacks the space.
    ///
    /// A complete file from an earlier process is kept, even on a full disk. A new file is made only if the disk has room for
    /// twice its size, so that a nearly full disk keeps some room. Half of this space is released again.
    func make() -> Bool {
        stands.withLock { stands in
            if stands { return true }
            let file = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0o600)
            guard file >= 0 else { return false }
            defer { close(file) }
            var status = stat()
            guard fstat(file, &status) == 0, status.st_mode & S_IFMT == S_IFREG, fchmod(file, 0o600) == 0 else {
                return false
            }
            // After a crash between allocating and releasing, the file has twice the size and is cut to its size here.
            let isAllocated = status.st_size >= size && Int(status.st_blocks) * 512 >= size
            guard isAllocated || allocate(file, 2 * size), ftruncate(file, off_t(size)) == 0 else {
                ftruncate(file, status.st_size)
                return false
            }
            stands = true
            return true
        }
    }

    /// Releases the space to the disk; returns false if it was released before.
    func free() -> Bool {
        stands.withLock { stands in
            guard stands else { return false }
            stands = false
            return truncate(path, 0) == 0
        }
    }

    @Sendable static func allocate(_ file: Int32, _ size: Int) -> Bool {
        #if canImport(Darwin)
            var store = fstore_t(
                fst_flags: UInt32(F_ALLOCATEALL), fst_posmode: F_PEOFPOSMODE, fst_offset: 0, fst_length: off_t(size),
                fst_bytesalloc: 0)
            return fcntl(file, F_PREALLOCATE, &store) == 0
        #else
            return posix_fallocate(file, 0, off_t(size)) == 0
        #endif
    }
}
