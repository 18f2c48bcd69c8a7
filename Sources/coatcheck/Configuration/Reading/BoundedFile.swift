import Foundation

/// Reads small files whole: configuration, keys, secrets, certificates.
enum BoundedFile {
    /// Returns the bytes of a file, or nil when it cannot be read or has more than `limit` bytes.
    static func read(_ path: String, limit: Int) -> [UInt8]? {
        guard let handle = FileHandle(forReadingAtPath: path) else { return nil }
        defer { try? handle.close() }
        guard let data = try? handle.read(upToCount: limit + 1) else { return nil }
        return data.count <= limit ? Array(data) : nil
    }
}
