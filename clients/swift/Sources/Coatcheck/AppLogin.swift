import Foundation

/// A login that the app started with a library of its own (flow B), for clients with `login: app` or `both`.
///
/// Keep it (it is `Codable`) until the session is there: who brings it again, after a restart of the app, too, gets the
/// same session.
public struct AppLogin: Codable, Sendable, Hashable {
    /// The provider's name at the broker.
    public let provider: String
    /// The client's name at the broker.
    public let client: String
    /// The state that the app made and kept, not one it read from the callback.
    public let state: String
    /// The PKCE verifier, where the login had one.
    public let codeVerifier: String?
    /// The nonce, where the login had one.
    public let nonce: String?
    /// The secret of this attempt.
    public let loginToken: String

    /// Creates what the forward of a callback needs.
    public init(provider: String, client: String, state: String, codeVerifier: String? = nil, nonce: String? = nil) {
        self.provider = provider
        self.client = client
        self.state = state
        self.codeVerifier = codeVerifier
        self.nonce = nonce
        loginToken = LoginToken.random()
    }
}

/// A sign-in by a provider's own SDK, which gives the app a code (Google's `serverAuthCode`, Apple's `authorizationCode`),
/// for clients with `native_code: true`.
///
/// Keep it until the session is there, as an ``AppLogin``.
public struct NativeLogin: Codable, Sendable, Hashable {
    /// The provider's name at the broker.
    public let provider: String
    /// The client's name at the broker.
    public let client: String
    /// The nonce that the SDK was given, raw.
    public let nonce: String?
    /// The secret of this attempt.
    public let loginToken: String

    /// Creates what the forward of a native code needs; `nonce` is what the SDK's request had.
    public init(provider: String, client: String, nonce: String?) {
        self.provider = provider
        self.client = client
        self.nonce = nonce
        loginToken = LoginToken.random()
    }
}

/// The secret that only the starter of a login holds.
enum LoginToken {
    /// Returns 256 random bits as base64url.
    static func random() -> String {
        var generator = SystemRandomNumberGenerator()
        let bytes = (0..<32).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
        return Data(bytes).base64URL
    }
}
