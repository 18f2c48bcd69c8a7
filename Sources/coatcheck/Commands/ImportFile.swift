import Glibc

/// Reads an export line by line, so that a file of any size fits into memory.
struct ImportFile: ~Copyable {
    /// A line with its number, which begins with 1.
    struct Line {
        let number: Int
        let bytes: [UInt8]
        /// Whether the file ends before the line does, because the export was interrupted.
        let isTorn: Bool
        /// Whether the line is longer than any line of an export; its bytes are left out.
        let isTooLong: Bool
    }

    /// The longest line in bytes: a plaintext of 1 MiB in base64url, and the other parts of a JWE.
    private static let maximumBytes = (1 << 20) * 4 / 3 + 8192

    private let descriptor: Int32
    private var buffer: [UInt8] = []
    private var position = 0
    private var number = 0
    private var chunk = [UInt8](repeating: 0, count: 65_536)

    /// Opens a regular file.
    init(_ path: String) throws(FileFault) {
        descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { throw FileFault(errno: errno) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw FileFault(errno: errno) }
        guard status.st_mode & S_IFMT == S_IFREG else {
            throw status.st_mode & S_IFMT == S_IFDIR ? .folder : .notRegular
        }
    }

    deinit { if descriptor >= 0 { close(descriptor) } }

    /// Returns the next line; nil at the end of the file.
    mutating func next() throws(FileFault) -> Line? {
        var line: [UInt8] = []
        var isTooLong = false
        while true {
            if position == buffer.count {
                let count = Glibc.read(descriptor, &chunk, chunk.count)
                if count < 0, errno == EINTR { continue }
                guard count >= 0 else { throw FileFault(errno: errno) }
                if count == 0 {
                    guard !line.isEmpty || isTooLong else { return nil }
                    number += 1
                    return Line(number: number, bytes: line, isTorn: true, isTooLong: isTooLong)
                }
                buffer = Array(chunk.prefix(count))
                position = 0
            }
            let rest = buffer[position...]
            let end = rest.firstIndex(of: UInt8(ascii: "\n"))
            let part = rest[..<(end ?? rest.endIndex)]
            if isTooLong || line.count + part.count > Self.maximumBytes {
                (line, isTooLong) = ([], true)
            } else {
                line += part
            }
            guard let end else {
                position = buffer.count
                continue
            }
            position = end + 1
            number += 1
            return Line(number: number, bytes: line, isTorn: false, isTooLong: isTooLong)
        }
    }
}
