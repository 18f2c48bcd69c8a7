import Glibc

/// Reads small files whole: configuration, keys, secrets and certificates.
enum BoundedFile {
    /// Returns the bytes of a file; nil if it is unreadable or larger than `limit` bytes.
    static func read(_ path: String, limit: Int) -> [UInt8]? { try? load(path, limit: limit) }

    /// Returns the bytes of a file; throws the reason if it cannot be used.
    ///
    /// Only regular files are read, because reading a pipe, a device or a socket could block for ever. The process's own
    /// descriptors (`/dev/stdin`, a shell's `<(…)`) are an exception, because the caller has chosen them.
    static func load(_ path: String, limit: Int) throws(FileFault) -> [UInt8] {
        let isOwn = path == "/dev/stdin" || path.hasPrefix("/dev/fd/") || path.hasPrefix("/proc/self/fd/")
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | (isOwn ? 0 : O_NONBLOCK))
        guard descriptor >= 0 else { throw FileFault(errno: errno) }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw FileFault(errno: errno) }
        guard isOwn || status.st_mode & S_IFMT == S_IFREG else {
            throw status.st_mode & S_IFMT == S_IFDIR ? .folder : .notRegular
        }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = Glibc.read(descriptor, &chunk, chunk.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw FileFault(errno: errno) }
            if count == 0 { return bytes }
            bytes += chunk.prefix(count)
            guard bytes.count <= limit else { throw .tooLarge(limit: limit) }
        }
    }
}
