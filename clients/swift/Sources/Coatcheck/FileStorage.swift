import Foundation

/// A storage for the credentials in a file that other users cannot read.
///
/// On iOS the file is protected until the first unlock.
public final class FileStorage: CredentialStorage {
    private let file: URL

    /// Creates a storage for a file, which may be missing.
    public init(_ file: URL) { self.file = file }

    /// Returns the content of the file, or nil if the file is missing or holds no credentials.
    ///
    /// Throws if it is temporarily unreadable, for example before the first unlock.
    public func read() throws -> Credentials? {
        let data: Data
        do { data = try Data(contentsOf: file) } catch let error as CocoaError
            where error.code == .fileReadNoSuchFile || error.code == .fileNoSuchFile
        {
            return nil
        }
        return try? JSONDecoder().decode(Credentials.self, from: data)
    }

    /// Replaces or removes the file.
    public func write(_ credentials: Credentials?) throws {
        guard let credentials else {
            do { try FileManager.default.removeItem(at: file) } catch let error as CocoaError
                where error.code == .fileNoSuchFile
            {}
            return
        }
        #if os(Linux)
            let options: Data.WritingOptions = .atomic
        #else
            let options: Data.WritingOptions = [.atomic, .completeFileProtectionUntilFirstUserAuthentication]
        #endif
        try JSONEncoder().encode(credentials).write(to: file, options: options)
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: file.path)
    }
}
