import Glibc

/// Reads small files whole: configuration, keys, secrets, certificates.
enum BoundedFile {
    /// Returns the bytes of a file, or nil when it cannot be read or has more than `limit` bytes.
    static func read(_ path: String, limit: Int) -> [UInt8]? { try? load(path, limit: limit) }

    /// Returns the bytes of a file; throws why it cannot be used.
    ///
    /// Regular files only: a pipe, a device or a socket could keep its reader waiting for ever. But for the process's own
    /// descriptors (`/dev/stdin`, `<(…)` of a shell), which nobody else can put there.
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

/// The reason for which a file of the configuration cannot be used.
enum FileFault: Error, Sendable, Equatable, CustomStringConvertible {
    case missing
    case notPermitted
    case folder
    case notRegular
    case tooLarge(limit: Int)
    case unreadable(Int32)

    /// Takes what the operating system said.
    init(errno code: Int32) {
        self =
            switch code {
            case ENOENT, ENOTDIR: .missing
            case EACCES, EPERM: .notPermitted
            case EISDIR: .folder
            case ENXIO: .notRegular
            default: .unreadable(code)
            }
    }

    var description: String {
        switch self {
        case .missing: "does not exist"
        case .notPermitted: "may not be read by this process's user"
        case .folder: "is a folder"
        case .notRegular: "is no regular file"
        case .tooLarge(let limit): "has more than \(SizeText.write(limit))"
        case .unreadable(let code): "cannot be read (\(String(cString: strerror(code))))"
        }
    }
}

/// The mode of a file that holds a secret.
enum FileMode {
    /// Returns whether others than its owner and this process's own groups may read the file, or anybody else write it.
    ///
    /// The target of a link is judged: a mounted Kubernetes Secret is links to files of root, 0440, with the pod's group.
    static func isOpenToOthers(_ path: String) -> Bool {
        var status = stat()
        guard stat(path, &status) == 0 else { return false }
        if status.st_mode & 0o037 != 0 { return true }
        return status.st_mode & 0o040 != 0 && !groups.contains(status.st_gid)
    }

    private static var groups: Set<gid_t> {
        let count = getgroups(0, nil)
        guard count > 0 else { return [getegid()] }
        var list = [gid_t](repeating: 0, count: Int(count))
        let found = getgroups(count, &list)
        return Set(list.prefix(Int(max(found, 0)))).union([getegid()])
    }
}
