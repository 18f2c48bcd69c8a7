import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// A storage that keeps the credentials as cookies, so that the app's own requests to the broker also carry them.
///
/// Use it for clients with `transport: cookie`. The last session and the ID of a started login are kept only in memory. A cookie
/// for an unused path holds the sessions that still have to be ended.
public final class CookieStorage: CredentialStorage, @unchecked Sendable {
    private let broker: URL
    private let cookies: HTTPCookieStorage
    private let lock = NSLock()
    private var lastSession: Session?
    private var loginID: String?
    private var pass: Credentials.Pass?

    /// Creates a storage over the cookies of one broker.
    public init(broker: URL, cookies: HTTPCookieStorage = .shared) {
        self.broker = broker
        self.cookies = cookies
    }

    /// Returns the values of the cookies.
    public func read() throws -> Credentials? {
        let names = CookieNames(broker)
        let found = cookies.cookies(for: broker) ?? []
        var credentials = Credentials()
        credentials.session = found.first { $0.name == names.session }?.value
        credentials.login = found.first { $0.name == names.login }?.value
        credentials.endings = endings()
        lock.lock()
        defer { lock.unlock() }
        credentials.lastSession = lastSession
        credentials.loginID = loginID
        credentials.pass = found.first { $0.name == names.pass }.map { pass(as: $0) }
        return credentials
    }

    /// Sets or deletes the cookies.
    public func write(_ credentials: Credentials?) throws {
        let names = CookieNames(broker)
        set(names.session, credentials?.session, until: credentials?.lastSession?.expiresAt)
        set(names.login, credentials?.login, until: nil)
        let pass = credentials?.pass
        set(names.pass, pass?.value, until: pass.map { $0.received.addingTimeInterval($0.lifetime) })
        let endings = try credentials.flatMap { $0.endings.isEmpty ? nil : try JSONEncoder().encode($0.endings) }
        set(Self.endings, endings?.base64EncodedString(), until: .distantFuture, path: "/\(Self.endings)")
        lock.lock()
        defer { lock.unlock() }
        lastSession = credentials?.lastSession
        loginID = credentials?.loginID
        self.pass = pass
    }

    /// Returns the pass in a cookie.
    ///
    /// After a restart of the app, only the pass's expiry is known, so the pass counts as received now.
    private func pass(as cookie: HTTPCookie) -> Credentials.Pass {
        if let pass, pass.value == cookie.value { return pass }
        let now = Date()
        return Credentials.Pass(
            value: cookie.value, received: now, lifetime: max(0, cookie.expiresDate?.timeIntervalSince(now) ?? 0))
    }

    private static let endings = "coatcheck-endings"

    private func cookies(at path: String) -> [HTTPCookie] {
        let found = cookies.cookies(for: path == "/" ? broker : broker.appendingPathComponent(path)) ?? []
        return found.filter { $0.path == path }
    }

    private func endings() -> [Credentials.Ending] {
        let kept = cookies(at: "/\(Self.endings)").first { $0.name == Self.endings }?.value
        guard let data = kept.flatMap({ Data(base64Encoded: $0) }) else { return [] }
        return (try? JSONDecoder().decode([Credentials.Ending].self, from: data)) ?? []
    }

    private func set(_ name: String, _ value: String?, until end: Date?, path: String = "/") {
        for old in cookies(at: path) where old.name == name { cookies.deleteCookie(old) }
        guard let value, let host = broker.host else { return }
        var properties: [HTTPCookiePropertyKey: Any] = [
            .name: name, .value: value, .domain: host, .path: path,
            // An expiry is always set, because iOS drops cookies without an expiry when the app ends.
            .expires: end ?? Date(timeIntervalSinceNow: 600),
        ]
        if broker.scheme == "https" { properties[.secure] = "TRUE" }
        if let cookie = HTTPCookie(properties: properties) { cookies.setCookie(cookie) }
    }
}
