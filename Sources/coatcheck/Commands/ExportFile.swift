import Glibc

/// The file that an export makes: one sealed line for each session, readable only for the user who runs the command.
struct ExportFile: ~Copyable {
    /// The reason why making or writing the file failed, as a sentence for the operator.
    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    /// A line in the file.
    struct Place: Sendable, Equatable {
        let offset: Int
        let length: Int
    }

    let path: String
    private let descriptor: Int32
    /// The length of the lines that were written whole.
    private(set) var length = 0

    /// Creates the file; throws if a file or a link with this name exists.
    init(creating path: String) throws(Failure) {
        self.path = path
        descriptor = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_CREAT | O_EXCL, 0o600)
        guard descriptor >= 0 else {
            throw Failure(
                description: errno == EEXIST
                    ? "\(path) exists already, and stays as it is" : "\(path): \(Self.reason())")
        }
        // The umask may have removed rights of the owner.
        guard fchmod(descriptor, 0o600) == 0 else {
            let failure = Failure(description: "\(path): \(Self.reason())")
            unlink(path)
            throw failure
        }
        // A power cut could remove the whole file unless its folder is synced.
        let folder = Glibc.open(Self.folder(of: path), O_RDONLY | O_CLOEXEC | O_DIRECTORY)
        guard folder >= 0, fsync(folder) == 0 else {
            let failure = Failure(description: "the folder of \(path) fails to sync: \(Self.reason())")
            if folder >= 0 { Glibc.close(folder) }
            unlink(path)
            throw failure
        }
        Glibc.close(folder)
    }

    deinit { Glibc.close(descriptor) }

    /// Appends lines, and returns their places.
    ///
    /// If the disk is full, the file is cut to the lines before.
    mutating func append(_ lines: [String]) throws(Failure) -> [Place] {
        var places: [Place] = []
        var bytes: [UInt8] = []
        for line in lines {
            places.append(Place(offset: length + bytes.count, length: line.utf8.count))
            bytes += line.utf8
            bytes.append(UInt8(ascii: "\n"))
        }
        do throws(Failure) { try write(bytes, at: length) } catch {
            ftruncate(descriptor, off_t(length))
            throw error
        }
        length += bytes.count
        return places
    }

    /// Replaces a line by spaces, which an import ignores.
    func blank(_ place: Place) throws(Failure) {
        try write(Array(repeating: UInt8(ascii: " "), count: place.length), at: place.offset)
    }

    /// Waits until the disk has the lines.
    func sync() throws(Failure) {
        guard fsync(descriptor) == 0 else { throw Failure(description: "\(path): \(Self.reason())") }
    }

    /// Removes the file if it is empty.
    func removeIfEmpty() { if length == 0 { unlink(path) } }

    private func write(_ bytes: [UInt8], at offset: Int) throws(Failure) {
        var done = 0
        while done < bytes.count {
            let count = bytes[done...].withUnsafeBytes {
                pwrite(descriptor, $0.baseAddress, $0.count, off_t(offset + done))
            }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw Failure(description: "\(path): \(Self.reason())") }
            done += count
        }
    }

    private static func folder(of path: String) -> String {
        path.lastIndex(of: "/").map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
    }

    private static func reason() -> String { String(cString: strerror(errno)) }
}
