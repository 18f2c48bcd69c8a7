import Synchronization

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Room on the disk that is kept for endings: a file beside the database, freed when the disk is full.
final class ReserveFile: Sendable {
    /// Room for 1,000 endings, one by one, while a reader keeps the log from being used again: 62 to 83 MB were measured,
    /// by how long the tokens are.
    static let standardSize = 96 << 20

    private let path: String
    private let size: Int
    /// Gives a file so many bytes of the disk, or says that there are none.
    private let allocate: @Sendable (Int32, Int) -> Bool
    /// Guards whether the file stands.
    private let stands = Mutex(false)

    /// Creates the reserve and tries to make its file.
    init(path: String, size: Int, allocate: @escaping @Sendable (Int32, Int) -> Bool = ReserveFile.allocate) {
        self.path = path
        self.size = size
        self.allocate = allocate
        _ = make()
    }

    /// Whether the room is there.
    var isReady: Bool { stands.withLock { $0 } }

    /// Makes the file where it is missing; false when the disk has no room for it.
    ///
    /// One that a process before has left stands as it is, however full the disk. Twice the room of a new one is asked for
    /// and half of it given back, so that a disk that is nearly full stays what it was.
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
            // A crash between the two steps leaves twice the room.
            let isAllocated = status.st_size >= size && Int(status.st_blocks) * 512 >= size
            guard isAllocated || allocate(file, 2 * size), ftruncate(file, off_t(size)) == 0 else {
                ftruncate(file, status.st_size)
                return false
            }
            stands = true
            return true
        }
    }

    /// Gives the room to the disk; false when it was given before.
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
