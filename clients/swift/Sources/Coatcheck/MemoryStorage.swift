import Foundation

/// Keeps the credentials as long as the process lives: for tests and previews.
public final class MemoryStorage: CredentialStorage, @unchecked Sendable {
    private let lock = NSLock()
    private var credentials: Credentials?

    /// Creates an empty storage.
    public init() {}

    /// Returns what was written last.
    public func read() throws -> Credentials? {
        lock.lock()
        defer { lock.unlock() }
        return credentials
    }

    /// Keeps it.
    public func write(_ credentials: Credentials?) throws {
        lock.lock()
        defer { lock.unlock() }
        self.credentials = credentials
    }
}
