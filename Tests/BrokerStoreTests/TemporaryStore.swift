import Broker
import BrokerStore
import Foundation
import Testing

/// Makes SQLite stores in temporary directories that are removed after the test.
enum TemporaryStore {
    static func with(
        monotonic: @escaping @Sendable () -> Duration = { .zero }, _ body: (SQLiteStore, String) async throws -> Void
    ) async throws {
        try await withDirectory { directory in
            let path = directory + "/data/coatcheck.db"
            let store = try await SQLiteStore.open(path: path, reserve: 1 << 16, monotonic: monotonic)
            do {
                try await body(store, path)
            } catch {
                await store.close()
                throw error
            }
            await store.close()
        }
    }

    static func withDirectory(_ body: (String) async throws -> Void) async throws {
        let directory = FileManager.default.temporaryDirectory.path + "/coatcheck-store-\(UUID().uuidString)"
        try FileManager.default.createDirectory(
            atPath: directory, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        defer { try? FileManager.default.removeItem(atPath: directory) }
        try await body(directory)
    }

    /// The permission bits of a file.
    static func mode(_ path: String) throws -> Int {
        let attributes = try FileManager.default.attributesOfItem(atPath: path)
        return try #require(attributes[.posixPermissions] as? Int)
    }

    /// The content of every file of the database, including the lock.
    static func contents(of path: String) throws -> [String: Data] {
        let directory = (path as NSString).deletingLastPathComponent
        var contents: [String: Data] = [:]
        for name in try FileManager.default.contentsOfDirectory(atPath: directory) {
            contents[name] = try Data(contentsOf: URL(fileURLWithPath: directory + "/" + name))
        }
        return contents
    }
}
