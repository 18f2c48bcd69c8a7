/// A place on the device for the credentials: ``KeychainStorage``, ``CookieStorage``, ``FileStorage``, or your own.
public protocol CredentialStorage: Sendable {
    /// Returns the stored credentials, or nil if nothing is stored.
    func read() throws -> Credentials?
    /// Stores the credentials.
    ///
    /// Nil deletes them.
    func write(_ credentials: Credentials?) throws
}
