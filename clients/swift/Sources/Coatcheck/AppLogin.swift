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
    /// The scopes that the app asked for, separated by spaces, where they are fewer than the client may ask for.
    public let scope: String?
    /// The address to which the provider returned, where the client has several; for a forward of the code alone.
    public let redirectURI: String?
    /// The secret of this attempt.
    public let loginToken: String

    /// Creates what the forward of a callback, or of its code, needs.
    public init(
        provider: String, client: String, state: String, codeVerifier: String? = nil, nonce: String? = nil,
        scope: String? = nil, redirectURI: String? = nil
    ) {
        self.provider = provider
        self.client = client
        self.state = state
        self.codeVerifier = codeVerifier
        self.nonce = nonce
        self.scope = scope
        self.redirectURI = redirectURI
        loginToken = LoginToken.random()
    }
}

/// A sign-in by a provider's own SDK, which gives the app a code (Google's `serverAuthCode`, Apple's `authorizationCode`) or
/// an ID token, for clients with `native_code: true`.
///
/// Keep it until the session is there, as an ``AppLogin``.
public struct NativeLogin: Codable, Sendable, Hashable {
    /// The provider's name at the broker.
    public let provider: String
    /// The client's name at the broker.
    public let client: String
    /// The nonce that the app made, raw: the SDK may have been given its ``hashedNonce``.
    public let nonce: String?
    /// The secret of this attempt.
    public let loginToken: String

    /// The SHA-256 of the nonce in hexadecimal digits, as the SDKs of Apple and Google take it.
    public var hashedNonce: String? {
        nonce.map { SHA256.digest(of: Data($0.utf8)).map { String(format: "%02x", $0) }.joined() }
    }

    /// Creates what the forward of a native code or ID token needs, with a nonce of its own.
    public init(provider: String, client: String) {
        self.init(provider: provider, client: client, nonce: LoginToken.random())
    }

    /// Creates what the forward of a native code or ID token needs; `nonce` is the one that the SDK's request was made with.
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
