import Foundation

/// Keeps the credentials in a file that others may not read; on iOS protected until the first unlock.
public final class FileStorage: CredentialStorage {
    private let file: URL

    /// Creates a storage over a file, which need not be there.
    public init(_ file: URL) { self.file = file }

    /// Returns what the file holds, nil where there is none; throws where it cannot be read now, as before the first unlock.
    public func read() throws -> Credentials? {
        let data: Data
        do { data = try Data(contentsOf: file) } catch let error as CocoaError
            where error.code == .fileReadNoSuchFile || error.code == .fileNoSuchFile
        {
            return nil
        }
        return try? JSONDecoder().decode(Credentials.self, from: data)
    }

    /// Writes the file anew, or removes it.
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
