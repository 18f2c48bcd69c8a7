import Broker
import Foundation
import Glibc

/// Writes files that hold secrets: mode 0600 whatever the umask, on disk before it says so (SEC-51).
enum PrivateFile {
    enum Failure: Error, CustomStringConvertible {
        case exists(String)
        case system(String, reason: String)

        var description: String {
            switch self {
            case .exists(let path): "\(path) exists already; it is not overwritten"
            case .system(let path, let reason): "\(path): \(reason)"
            }
        }
    }

    /// Creates a file; throws `exists` when there is one.
    static func create(_ path: String, content: Secret) throws(Failure) {
        try write(path, content: content, flags: O_CREAT | O_EXCL)
        try syncFolder(of: path)
    }

    /// Replaces a file in one step: a reader sees the old one or the new one.
    static func replace(_ path: String, content: Secret) throws(Failure) {
        let draft = path + ".new"
        // What a crash left behind is nobody's.
        unlink(draft)
        try write(draft, content: content, flags: O_CREAT | O_EXCL)
        guard rename(draft, path) == 0 else {
            let reason = reason()
            unlink(draft)
            throw .system(path, reason: reason)
        }
        try syncFolder(of: path)
    }

    private static func write(_ path: String, content: Secret, flags: Int32) throws(Failure) {
        let descriptor = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | flags, 0o600)
        guard descriptor >= 0 else { throw errno == EEXIST ? .exists(path) : .system(path, reason: reason()) }
        defer { close(descriptor) }
        let bytes = content.bytes()
        var offset = 0
        while offset < bytes.count {
            let count = bytes[offset...].withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw .system(path, reason: reason()) }
            offset += count
        }
        guard fchmod(descriptor, 0o600) == 0, fsync(descriptor) == 0 else { throw .system(path, reason: reason()) }
    }

    private static func syncFolder(of path: String) throws(Failure) {
        let folder = path.contains("/") ? String(path[...(path.lastIndex(of: "/") ?? path.startIndex)]) : "."
        let descriptor = open(folder, O_RDONLY | O_CLOEXEC | O_DIRECTORY)
        guard descriptor >= 0 else { throw .system(folder, reason: reason()) }
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 else { throw .system(folder, reason: reason()) }
    }

    private static func reason() -> String { String(cString: strerror(errno)) }
}
