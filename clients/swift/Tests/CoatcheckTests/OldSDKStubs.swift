import Foundation

// The members of AppAuth and of Auth0's SDK that the code of docs/apps/moving-in-app.md calls.

/// AppAuth-iOS 2: the state, which the app archives itself.
final class OIDAuthState: @unchecked Sendable {
    struct Response {
        var accessToken: String?
        var idToken: String?
    }

    var refreshToken: String?
    var lastTokenResponse: Response?
    var refreshes = 0

    init(refreshToken: String?, accessToken: String?) {
        self.refreshToken = refreshToken
        lastTokenResponse = Response(accessToken: accessToken, idToken: "id")
    }

    func performAction(freshTokens action: @escaping @Sendable (String?, String?, (any Error)?) -> Void) {
        refreshes += 1
        action("fresh", "id", nil)
    }
}

/// The app's own record of the archived state in the keychain.
final class StateRecord: @unchecked Sendable {
    var state: OIDAuthState?
    init(_ state: OIDAuthState?) { self.state = state }
    func read() throws -> OIDAuthState? { state }
    func write(_ state: OIDAuthState) throws { self.state = state }
    func delete() throws { state = nil }
}

/// Auth0 SDK 3 for Swift: the manager, its storage SimpleKeychain, and the class of its archived credentials.
enum Auth0 {
    struct Credentials: Codable, Sendable {
        var accessToken: String
        var refreshToken: String?
        var idToken: String
    }
}

final class SimpleKeychain: @unchecked Sendable {
    var items: [String: Data] = [:]
    func hasItem(forKey key: String) throws -> Bool { items[key] != nil }
    func data(forKey key: String) throws -> Data { items[key] ?? Data() }
}

final class CredentialsManager: @unchecked Sendable {
    let keychain: SimpleKeychain
    var renewals = 0
    var revocations = 0
    init(_ keychain: SimpleKeychain) { self.keychain = keychain }
    func clear() throws { keychain.items = [:] }
    func revoke() async throws {
        revocations += 1
        try clear()
    }
    func credentials() async throws -> Auth0.Credentials {
        renewals += 1
        return try JSONDecoder().decode(Auth0.Credentials.self, from: keychain.data(forKey: "credentials"))
    }
}

/// The archive of the credentials, which is JSON in these tests.
enum NSKeyedUnarchiver {
    static func unarchivedObject(ofClass type: Auth0.Credentials.Type, from data: Data) throws -> Auth0.Credentials? {
        try JSONDecoder().decode(type, from: data)
    }
}
