/// The place where a device keeps its credentials: ``KeychainStorage``, ``CookieStorage``, ``FileStorage``, or your own.
public protocol CredentialStorage: Sendable {
    /// Returns what is kept; nil when nothing is.
    func read() throws -> Credentials?
    /// Keeps the credentials; nil forgets them.
    func write(_ credentials: Credentials?) throws
}
