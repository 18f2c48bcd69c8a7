import Broker
import Foundation
import Glibc

/// Writes files that contain secrets, readable only for their user under any umask, and synced to disk (SEC-51).
///
/// A file that root creates belongs to the folder's owner. A replaced file keeps its owner, group and mode, so that the broker
/// can still read it.
enum PrivateFile {
    enum Failure: Error, CustomStringConvertible {
        case exists(String)
        case system(String, reason: String)
        /// The file belongs to another user, and the caller may not create a file for that user.
        case owner(String, user: String)

        var description: String {
            switch self {
            case .exists(let path): "\(path) exists already; it is not overwritten"
            case .system(let path, let reason): "\(path): \(reason)"
            case .owner(let path, let user):
                "\(path) is \(user)'s, who could not read what would take its place: run this as \(user) or as root"
            }
        }
    }

    /// The owner, group and mode of a file.
    private struct Access: Equatable {
        var user: uid_t
        var group: gid_t
        var mode: mode_t

        init(user: uid_t, group: gid_t, mode: mode_t) {
            self.user = user
            self.group = group
            self.mode = mode
        }

        init(_ status: stat) {
            self.init(user: status.st_uid, group: status.st_gid, mode: status.st_mode & 0o777)
        }
    }

    /// Creates a file; throws `exists` if there is one.
    static func create(_ path: String, content: Secret) throws(Failure) {
        var status = stat()
        let isRoots = geteuid() == 0 && stat(folder(of: path), &status) == 0
        let access = isRoots ? Access(user: status.st_uid, group: status.st_gid, mode: 0o600) : nil
        try write(path, content: content, access)
        try syncFolder(of: path)
    }

    /// Replaces a file in one step, so that a reader sees either the old content or the new content.
    ///
    /// If the path is a link, the link's target is replaced.
    static func replace(_ path: String, content: Secret) throws(Failure) {
        let place = target(of: path)
        var status = stat()
        guard lstat(place, &status) == 0 else { throw .system(path, reason: reason()) }
        guard status.st_mode & S_IFMT == S_IFREG else { throw .system(path, reason: "it is not an ordinary file") }
        let draft = place + ".new"
        // Remove a new file that an earlier command left when it crashed.
        unlink(draft)
        do throws(Failure) { try write(draft, content: content, Access(status)) } catch {
            // A failed system call concerns the new file, and a wrong owner concerns the old file, so each error names its own
            // path.
            switch error {
            case .system(_, let reason): throw .system(draft, reason: reason)
            case .owner(_, let user): throw .owner(path, user: user)
            case .exists: throw error
            }
        }
        guard rename(draft, place) == 0 else {
            let reason = reason()
            unlink(draft)
            throw .system(path, reason: reason)
        }
        try syncFolder(of: place)
    }

    /// Writes a new file, and removes it if writing fails.
    private static func write(_ path: String, content: Secret, _ access: Access?) throws(Failure) {
        let descriptor = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_CREAT | O_EXCL, 0o600)
        guard descriptor >= 0 else { throw errno == EEXIST ? .exists(path) : .system(path, reason: reason()) }
        defer { close(descriptor) }
        do throws(Failure) {
            // Set the access while the file is empty, so that unauthorised users can never read its content.
            try give(descriptor, path, access)
            let bytes = content.bytes()
            var offset = 0
            while offset < bytes.count {
                let count = bytes[offset...].withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
                if count < 0, errno == EINTR { continue }
                guard count > 0 else { throw .system(path, reason: reason()) }
                offset += count
            }
            guard fsync(descriptor) == 0 else { throw .system(path, reason: reason()) }
        } catch {
            unlink(path)
            throw error
        }
    }

    /// Sets the owner, group and mode of an empty file.
    private static func give(_ descriptor: Int32, _ path: String, _ access: Access?) throws(Failure) {
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw .system(path, reason: reason()) }
        let access = access ?? Access(user: status.st_uid, group: status.st_gid, mode: 0o600)
        if status.st_uid != access.user || status.st_gid != access.group {
            guard fchown(descriptor, access.user, access.group) == 0 else {
                throw .owner(path, user: BrokersUser.name(of: access.user))
            }
        }
        guard fchmod(descriptor, access.mode) == 0 else { throw .system(path, reason: reason()) }
    }

    /// Returns the target of a path, or the path itself if nothing exists there.
    private static func target(of path: String) -> String {
        guard let resolved = realpath(path, nil) else { return path }
        defer { free(resolved) }
        return String(cString: resolved)
    }

    private static func folder(of path: String) -> String {
        path.contains("/") ? String(path[...(path.lastIndex(of: "/") ?? path.startIndex)]) : "."
    }

    private static func syncFolder(of path: String) throws(Failure) {
        let folder = folder(of: path)
        let descriptor = open(folder, O_RDONLY | O_CLOEXEC | O_DIRECTORY)
        guard descriptor >= 0 else { throw .system(folder, reason: reason()) }
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 else { throw .system(folder, reason: reason()) }
    }

    private static func reason() -> String { String(cString: strerror(errno)) }
}
