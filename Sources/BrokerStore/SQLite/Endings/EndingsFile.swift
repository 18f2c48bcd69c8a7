package import Broker

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The endings file on its volume: opened under a lock, appended to with a sync, shortened now and then.
///
/// Every call blocks, and one thread at a time makes them: its owner is `EndingsLog`.
final class EndingsFile {
    private let path: String
    private let step: @Sendable (EndingsStep) -> Void
    /// The lock file's descriptor, and the file's; -1 while it has been lost.
    private var lock: Int32 = -1
    private var descriptor: Int32 = -1
    private var header: EndingsHeader
    /// The bytes up to the end of the last line that is known to be whole.
    private var length = 0
    /// Whether something may stand behind it.
    private var isTorn = false
    /// Whether the file's name is known to be on disk.
    private var isNamed = false
    /// The length at which it is looked whether the file can be shortened.
    private var lookAt = EndingsFile.smallest

    /// Files below this are left as they are.
    private static let smallest = 1 << 20

    /// Opens the file, or makes it; `each` gets what it holds.
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
                // A session of a longer life may stand in a later backup.
                let isLonger = place.longestLifetime > found.longestLifetime
                // Not written to for so long, it may lack what the database has forgotten meanwhile.
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

    /// Reads a file that stands, for `restore`; a process that writes to it makes this refuse.
    static func read(
        _ path: String, each: (EndingEntry) throws -> Void
    ) throws -> EndingsSummary {
        let lock = try DatabaseFiles.takeLock(on: path + ".lock", of: path)
        defer { Self.close(lock) }
        let descriptor = try DatabaseFiles.openStanding(path)
        defer { Self.close(descriptor) }
        return try EndingsReader.read(descriptor, path, each: each)
    }

    /// Appends lines; returns when they are on disk.
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
        // Bytes on a disk that nobody finds again are not kept.
        guard stands else { throw EndingsFailure("the file is gone") }
        step(.synced)
        isTorn = false
        length += bytes.count
        if length >= lookAt { try? shorten(always: false) }
    }

    /// Keeps endings for a longer life; a shorter one may not be that of what has been stored.
    func adopt(longestLifetime: Duration) {
        guard longestLifetime > header.longestLifetime else { return }
        header.longestLifetime = longestLifetime
        // Where it cannot be written now, the next writing of the whole file has it, or the next start.
        if stands { try? shorten(always: true) }
    }

    func close() {
        for descriptor in [descriptor, lock] where descriptor >= 0 { Self.close(descriptor) }
        descriptor = -1
        lock = -1
    }

    // MARK: Where it is

    /// Whether the file that is open is the one under its name.
    private var stands: Bool {
        var (open, named) = (stat(), stat())
        return descriptor >= 0 && fstat(descriptor, &open) == 0 && lstat(path, &named) == 0
            && open.st_ino == named.st_ino && open.st_dev == named.st_dev
    }

    /// Takes up the file that stands under the name now: its volume was away and is back.
    ///
    /// It is never made anew here: an empty folder may be where the volume has yet to come. Nor is another file taken for
    /// it, which lacks what this one was given: at a start it is brought what the database has.
    private func findAgain() throws(EndingsFailure) {
        close()
        guard DatabaseFiles.size(path) != nil else { throw EndingsFailure("the file is gone") }
        let before = (header: header, length: length)
        do {
            lock = try DatabaseFiles.takeLock(on: path + ".lock", of: path)
            let found = try open { _ in }
            guard found.since == before.header.since, found.wholeBytes >= before.length else {
                throw EndingsFailure("another file stands in its place: a restart takes it up")
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

    /// Writes the file anew without what is older than any session, where that is half of it at least.
    ///
    /// "Now" is when the ending at three quarters of the file was written: a clock that is wrong for a while forgets
    /// nothing.
    private func shorten(always: Bool) throws {
        var times: [WallTime] = []
        let found = try EndingsReader.read(descriptor, path) { times.append($0.at) }
        // That lines were lost must not be forgotten: `restore` has to say so.
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

    /// Puts a file of these lines in the place of the one that stands there, or of none.
    private func rewrite(_ lines: [UInt8]) throws {
        let draft = path + ".rewriting"
        // The rest that a crash left behind is nobody's: the lock is held.
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
        // Until it is known to be found again, nothing that is appended is kept.
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

/// The place of the endings beside the database, for the day on which a backup is restored (decision 33).
package struct EndingsPlace: Sendable {
    package let path: String
    /// The longest lifetime that a session may have.
    package let longestLifetime: Duration
    /// The time at which the file begins, where there is none yet.
    package let now: WallTime

    package init(path: String, longestLifetime: Duration, now: WallTime) {
        self.path = path
        self.longestLifetime = longestLifetime
        self.now = now
    }
}

/// The reason for which an endings file takes no lines at the moment, in words for the operator.
struct EndingsFailure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}

/// A moment in the writing of the endings file, for tests that look at what a crash would leave there.
enum EndingsStep: Sendable, Equatable, CaseIterable {
    /// The endings are in the database, and not in the file.
    case noted
    /// The lines are written, and not known to be on disk.
    case written
    /// They are on disk, and nobody has been told.
    case synced
    /// A shorter file is whole and stands beside the old one.
    case rewritten
    /// It stands in its place.
    case renamed
}
