import Glibc

/// Reads small files whole: configuration, keys, secrets, certificates.
enum BoundedFile {
    /// Returns the bytes of a file, or nil when it cannot be read or has more than `limit` bytes.
    static func read(_ path: String, limit: Int) -> [UInt8]? { try? load(path, limit: limit) }

    /// Returns the bytes of a file; throws why it cannot be used.
    static func load(_ path: String, limit: Int) throws(FileFault) -> [UInt8] {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw FileFault(errno: errno) }
        defer { close(descriptor) }
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
