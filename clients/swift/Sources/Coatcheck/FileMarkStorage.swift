import Foundation

/// A storage for the mark in a file, which all processes of the app can reach.
///
/// On iOS, use the container of the app's group if the app has widgets or extensions. Backups leave the file out.
public final class FileMarkStorage: MarkStorage {
    private let file: URL

    /// Creates a storage for a file, which may be missing.
    public init(_ file: URL) { self.file = file }

    /// Returns the mark, or nil if the file lacks one.
    public func read() throws -> MoveInMark? {
        let data: Data
        do { data = try Data(contentsOf: file) } catch let error as CocoaError
            where error.code == .fileReadNoSuchFile || error.code == .fileNoSuchFile
        {
            return nil
        }
        return try? JSONDecoder().decode(MoveInMark.self, from: data)
    }

    /// Changes the mark under a lock of the system, which the end of a process releases.
    public func change(_ work: (MoveInMark?) -> MoveInMark?) throws -> MoveInMark? {
        let lock = open(file.path + ".lock", O_CREAT | O_RDWR | O_CLOEXEC, 0o600)
        guard lock >= 0 else { throw failure() }
        defer { close(lock) }
        while flock(lock, LOCK_EX) != 0 { guard errno == EINTR else { throw failure() } }
        let before = try read()
        let after = work(before)
        if after != before { try write(after) }
        return after
    }

    private func write(_ mark: MoveInMark?) throws {
        if let mark {
            let next = file.appendingPathExtension("next")
            #if os(Linux)
                let options: Data.WritingOptions = []
            #else
                let options: Data.WritingOptions = .completeFileProtectionUntilFirstUserAuthentication
            #endif
            try JSONEncoder().encode(mark).write(to: next, options: options)
            try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: next.path)
            #if !os(Linux)
                var values = URLResourceValues()
                values.isExcludedFromBackup = true
                var marked = next
                try marked.setResourceValues(values)
            #endif
            try synchronize(next)
            guard rename(next.path, file.path) == 0 else { throw failure() }
        } else {
            guard unlink(file.path) == 0 || errno == ENOENT else { throw failure() }
        }
        try synchronize(file.deletingLastPathComponent())
    }

    /// Waits until the content of a file or folder is on the disk.
    private func synchronize(_ url: URL) throws {
        let descriptor = open(url.path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw failure() }
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 else { throw failure() }
    }

    private func failure() -> POSIXError { POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO) }
}
