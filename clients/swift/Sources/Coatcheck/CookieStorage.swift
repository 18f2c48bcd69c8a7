import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Keeps the credentials as cookies, so that requests of the app's own to the broker carry them, too.
///
/// For clients with `transport: cookie`. Who was signed in last is kept in memory only.
public final class CookieStorage: CredentialStorage, @unchecked Sendable {
    private let broker: URL
    private let cookies: HTTPCookieStorage
    private let lock = NSLock()
    private var lastSession: Session?
    private var loginID: String?

    /// Creates a storage over the cookies of one broker.
    public init(broker: URL, cookies: HTTPCookieStorage = .shared) {
        self.broker = broker
        self.cookies = cookies
    }

    /// Returns the cookies' values.
    public func read() throws -> Credentials? {
        let names = CookieNames(broker)
        let found = cookies.cookies(for: broker) ?? []
        var credentials = Credentials()
        credentials.session = found.first { $0.name == names.session }?.value
        credentials.login = found.first { $0.name == names.login }?.value
        lock.lock()
        defer { lock.unlock() }
        credentials.lastSession = lastSession
        credentials.loginID = loginID
        return credentials
    }

    /// Sets or deletes the cookies.
    public func write(_ credentials: Credentials?) throws {
        let names = CookieNames(broker)
        set(names.session, credentials?.session, until: credentials?.lastSession?.expiresAt)
        set(names.login, credentials?.login, until: nil)
        lock.lock()
        defer { lock.unlock() }
        lastSession = credentials?.lastSession
        loginID = credentials?.loginID
    }

    private func set(_ name: String, _ value: String?, until end: Date?) {
        for old in cookies.cookies(for: broker) ?? [] where old.name == name { cookies.deleteCookie(old) }
        guard let value, let host = broker.host else { return }
        var properties: [HTTPCookiePropertyKey: Any] = [
            .name: name, .value: value, .domain: host, .path: "/",
            // iOS drops cookies without an end when the app ends.
            .expires: end ?? Date(timeIntervalSinceNow: 600),
        ]
        if broker.scheme == "https" { properties[.secure] = "TRUE" }
        if let cookie = HTTPCookie(properties: properties) { cookies.setCookie(cookie) }
    }
}
