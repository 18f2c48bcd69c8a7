import Broker

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Reads an endings file from its beginning, piece by piece, because the file may be too large for memory.
enum EndingsReader {
    private static let piece = 1 << 18
    /// The limit on the length of the first line, in bytes.
    ///
    /// Every valid line is shorter.
    ///
    /// If the first line is longer, the file is of another kind.
    private static let longestLine = 4096

    /// Hands each ending to `each`, in the order of writing.
    ///
    /// Throws if the file is unreadable or of another kind.
    static func read(
        _ descriptor: Int32, _ path: String, each: (EndingEntry) throws -> Void
    ) throws -> EndingsSummary {
        var rest: [UInt8] = []
        var summary: EndingsSummary?
        var offset = 0
        var buffer = [UInt8](repeating: 0, count: piece)
        while true {
            let count = pread(descriptor, &buffer, buffer.count, off_t(offset))
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw StoreOpenFailure.file(path, reason: String(cString: strerror(errno))) }
            if count == 0 { break }
            offset += count
            rest += buffer[..<count]
            var begin = 0
            while let end = rest[begin...].firstIndex(of: 0x0A) {
                let line = rest[begin..<end]
                begin = end + 1
                if summary == nil {
                    guard let header = EndingsHeader(line: line) else { throw StoreOpenFailure.notEndings(path) }
                    summary = EndingsSummary(since: header.since, longestLifetime: header.longestLifetime)
                } else if let entry = EndingEntry(line: line) {
                    summary?.entries += 1
                    let newest = summary?.newest ?? entry.at
                    summary?.newest = max(newest, entry.at)
                    try each(entry)
                } else {
                    summary?.damaged += 1
                }
                summary?.wholeBytes += line.count + 1
            }
            rest.removeFirst(begin)
            guard summary != nil || rest.count <= longestLine else { throw StoreOpenFailure.notEndings(path) }
        }
        guard let summary else { throw StoreOpenFailure.notEndings(path) }
        return summary
    }
}
