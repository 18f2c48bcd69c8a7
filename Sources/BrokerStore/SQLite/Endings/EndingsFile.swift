import Broker

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The open endings file, which is locked, synced after each append, and shortened from time to time.
///
/// Every call blocks. The owner, `EndingsLog`, calls it from one thread at a time.
final class EndingsFile {
    private let path: String
    private let step: @Sendable (EndingsStep) -> Void
    /// The descriptors of the lock file and of the file; -1 while the file is lost.
    private var lock: Int32 = -1
    private var descriptor: Int32 = -1
    private var header: EndingsHeader
    /// The number of bytes up to the end of the last line that is known to be whole.
    private var length = 0
    /// Whether an incomplete line may follow the last whole line.
    private var isTorn = false
    /// Whether the directory was synced, so that the file's name survives a crash.
    private var isNamed = false
    /// The length at which the file is next checked for shortening.
    private var lookAt = EndingsFile.smallest

    /// The size, in bytes, below which the file is never shortened.
    private static let smallest = 1 << 20

    /// Opens the file, or creates it.
    ///
    /// `each` receives the entries that the file already has.
    init(
        _ place: EndingsPlace, step: @escaping @Sendable (EndingsStep) -> Void, each: (EndingEntry) -> Void
    ) throws(StoreOpenFailure) {
        path = place.path
        self.step = step
        header = EndingsHeader(since: place.now, longestLifetime: place.longestLifetime)
        do {
            lock = try DatabaseFiles.takeLock(on: path + ".lock", of: path)
            var status = stat()
            if lstat(path, &status) != 0, errno == ENOENT {
                try rewrite([])
            } else {
                let found = try open(each)
                // Later backups can contain sessions with a longer lifetime, so the file must keep endings for this lifetime.
                let isLonger = place.longestLifetime > found.longestLifetime
                // The database forgets an ending after this time. If the file was unused for longer, endings may be missing
                // from it, so its record is complete only from now on.
                let forgotten = place.now.advanced(by: .zero - RetentionPeriods.tombstone)
                let isOld = max(found.since, found.newest ?? found.since) < forgotten
                if isLonger { header.longestLifetime = place.longestLifetime }
                if isOld { header.since = place.now }
                if isLonger || isOld { try shorten(always: true) }
            }
        } catch {
            close()
            if let failure = error as? StoreOpenFailure { throw failure }
            throw .file(path, reason: "\(error)")
        }
    }

    deinit { close() }

    /// Reads an existing file for `restore`; throws if a process is writing to it.
    static func read(
        _ path: String, each: (EndingEntry) throws -> Void
    ) throws -> EndingsSummary {
        let lock = try DatabaseFiles.takeLock(on: path + ".lock", of: path)
        defer { Self.close(lock) }
        let descriptor = try DatabaseFiles.openStanding(path)
        defer { Self.close(descriptor) }
        return try EndingsReader.read(descriptor, path, each: each)
    }

    /// Appends lines and returns when they are on disk.
    func append(_ entries: [EndingEntry]) throws(EndingsFailure) {
        if !stands { try findAgain() }
        if !isNamed { try syncName() }
        let bytes = entries.reduce(into: [UInt8]()) { $0 += $1.line.utf8 }
        if isTorn {
            guard ftruncate(descriptor, off_t(length)) == 0 else { throw Self.failure() }
        }
        isTorn = true
        try Self.write(bytes, to: descriptor, at: length)
        step(.written)
        guard fdatasync(descriptor) == 0 else { throw Self.failure() }
        // If another file has the name now, a restore would miss these lines. So report the append as failed.
        guard stands else { throw EndingsFailure("the file is gone") }
        step(.synced)
        isTorn = false
        length += bytes.count
        if length >= lookAt { try? shorten(always: false) }
    }

    /// Sets a longer lifetime of sessions, for which endings are kept from now on.
    ///
    /// A shorter lifetime is ignored, because stored sessions may have the longer lifetime.
    func adopt(longestLifetime: Duration) {
        guard longestLifetime > header.longestLifetime else { return }
        header.longestLifetime = longestLifetime
        // If writing the header fails now, the next rewrite of the file or the next start writes the lifetime.
        if stands { try? shorten(always: true) }
    }

    func close() {
        for descriptor in [descriptor, lock] where descriptor >= 0 { Self.close(descriptor) }
        descriptor = -1
        lock = -1
    }

    // MARK: The file's place

    /// Whether the file's name still leads to the open file.
    private var stands: Bool {
        var (open, named) = (stat(), stat())
        return descriptor >= 0 && fstat(descriptor, &open) == 0 && lstat(path, &named) == 0
            && open.st_ino == named.st_ino && open.st_dev == named.st_dev
    }

    /// Reopens the file under its name, after its volume was missing and has come back.
    ///
    /// The file is never created here, because an empty folder may be the mount point of a missing volume. Another file under
    /// this name is refused, because it lacks lines that were written to the open file. Only a start of the broker accepts a
    /// new file, and adds the database's endings to it.
    private func findAgain() throws(EndingsFailure) {
        close()
        guard DatabaseFiles.size(path) != nil else { throw EndingsFailure("the file is gone") }
        let before = (header: header, length: length)
        do {
            lock = try DatabaseFiles.takeLock(on: path + ".lock", of: path)
            let found = try open { _ in }
            guard found.since == before.header.since, found.wholeBytes >= before.length else {
                throw EndingsFailure("another file is in its place; restart the broker to use that one")
            }
        } catch {
            close()
            (header, length) = before
            throw EndingsFailure("\(error)")
        }
    }

    private func open(_ each: (EndingEntry) -> Void) throws -> EndingsSummary {
        descriptor = try DatabaseFiles.openStanding(path)
        let summary = try EndingsReader.read(descriptor, path, each: each)
        header = EndingsHeader(
            since: summary.since, longestLifetime: max(summary.longestLifetime, header.longestLifetime))
        isNamed = false
        length = summary.wholeBytes
        isTorn = DatabaseFiles.size(path) != length
        return summary
    }

    // MARK: Shortening

    /// Rewrites the file without the endings that are older than the longest lifetime, if this removes at least half of the
    /// endings; with `always`, in any case.
    ///
    /// The current time is taken from the ending at three quarters of the file, so a temporarily wrong clock is harmless.
    private func shorten(always: Bool) throws {
        var times: [WallTime] = []
        let found = try EndingsReader.read(descriptor, path) { times.append($0.at) }
        // `restore` must be able to report damaged lines, so a file with such lines is kept as it is.
        guard found.damaged == 0 else { return }
        let now = times.isEmpty ? header.since : times[times.count * 3 / 4]
        let oldest = now.advanced(by: .zero - header.longestLifetime)
        let kept = times.count { $0 >= oldest }
        lookAt = max(Self.smallest, 2 * length)
        guard always || kept * 2 <= times.count else { return }
        var lines: [UInt8] = []
        lines.reserveCapacity(kept * 96)
        _ = try EndingsReader.read(descriptor, path) { entry in
            if entry.at >= oldest { lines += entry.line.utf8 }
        }
        try rewrite(lines)
        lookAt = max(Self.smallest, 2 * length)
    }

    /// Replaces the file, or creates it, with these lines.
    private func rewrite(_ lines: [UInt8]) throws {
        let draft = path + ".rewriting"
        // This process holds the lock, so an existing draft was left by a crash.
        DatabaseFiles.removeFile(draft)
        try DatabaseFiles.createFile(draft)
        let bytes = Array(header.line.utf8) + lines
        let new = try DatabaseFiles.openStanding(draft)
        do {
            try Self.write(bytes, to: new, at: 0)
            guard fsync(new) == 0 else { throw Self.failure() }
            step(.rewritten)
            guard rename(draft, path) == 0 else { throw Self.failure() }
        } catch {
            Self.close(new)
            DatabaseFiles.removeFile(draft)
            throw error
        }
        if descriptor >= 0 { Self.close(descriptor) }
        descriptor = new
        length = bytes.count
        isTorn = false
        // Before the new name is on disk, a crash could restore the old file. So appended lines count as kept only after the
        // sync.
        isNamed = false
        try syncName()
        step(.renamed)
    }

    private func syncName() throws(EndingsFailure) {
        do throws(StoreOpenFailure) { try DatabaseFiles.syncDirectory(of: path) } catch {
            throw EndingsFailure("\(error)")
        }
        isNamed = true
    }

    // MARK: System calls

    private static func write(_ bytes: [UInt8], to descriptor: Int32, at start: Int) throws(EndingsFailure) {
        var written = 0
        while written < bytes.count {
            let step = bytes[written...].withUnsafeBytes {
                pwrite(descriptor, $0.baseAddress, $0.count, off_t(start + written))
            }
            if step < 0, errno == EINTR { continue }
            guard step > 0 else { throw failure() }
            written += step
        }
    }

    private static func failure() -> EndingsFailure {
        errno == ENOSPC || errno == EDQUOT
            ? EndingsFailure("its disk is full") : EndingsFailure(String(cString: strerror(errno)))
    }

    private static func close(_ descriptor: Int32) {
        #if canImport(Darwin)
            Darwin.close(descriptor)
        #else
            Glibc.close(descriptor)
        #endif
    }
}

/// The reason why an append to the endings file failed, in words for the operator.
struct EndingsFailure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}
