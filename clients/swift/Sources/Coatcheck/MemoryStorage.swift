import Foundation

/// A storage in memory, for tests and previews.
public final class MemoryStorage: CredentialStorage, @unchecked Sendable {
    private let lock = NSLock()
    private var credentials: Credentials?

    /// Creates an empty storage.
    public init() {}

    /// Returns the last written credentials.
    public func read() throws -> Credentials? {
        lock.lock()
        defer { lock.unlock() }
        return credentials
    }

    /// Keeps the credentials.
    public func write(_ credentials: Credentials?) throws {
        lock.lock()
        defer { lock.unlock() }
        self.credentials = credentials
    }
}
