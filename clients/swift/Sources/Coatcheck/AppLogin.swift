import Foundation

/// A login that the app started with its own library (flow B), for clients with `login: app` or `both`.
///
/// Keep this value, which is `Codable`, until the session exists. If the app repeats the forward with the same value, the
/// broker returns the same session, even after a restart of the app.
public struct AppLogin: Codable, Sendable, Hashable {
    /// The provider's name at the broker.
    public let provider: String
    /// The client's name at the broker.
    public let client: String
    /// The state that the app made and stored.
    ///
    /// Do not read it from the callback.
    public let state: String
    /// The PKCE verifier, if the login has one.
    public let codeVerifier: String?
    /// The nonce, if the login has one.
    public let nonce: String?
    /// The scopes that the app asked for, separated by spaces.
    ///
    /// Set the scopes if the app asked for fewer scopes than its client may ask for.
    public let scope: String?
    /// The redirect address of the login.
    ///
    /// Set it if the client has several redirect addresses and the app forwards only the code.
    public let redirectURI: String?
    /// The login token, a secret that only this login's app has.
    public let loginToken: String

    /// Creates the data for forwarding a callback or its code.
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

/// A sign-in by a provider's native SDK, for clients with `native_code: true`.
///
/// The SDK gives the app a code (Google's `serverAuthCode`, Apple's `authorizationCode`) or an ID token. Keep this value
/// until the session exists, like an ``AppLogin``.
public struct NativeLogin: Codable, Sendable, Hashable {
    /// The provider's name at the broker.
    public let provider: String
    /// The client's name at the broker.
    public let client: String
    /// The nonce that the app made, unhashed.
    ///
    /// The app may have given the SDK the ``hashedNonce`` instead.
    public let nonce: String?
    /// The login token, a secret that only this login's app has.
    public let loginToken: String

    /// The SHA-256 of the nonce in hexadecimal digits, as the SDKs of Apple and Google expect it.
    public var hashedNonce: String? {
        nonce.map { SHA256.digest(of: Data($0.utf8)).map { String(format: "%02x", $0) }.joined() }
    }

    /// Creates the data for forwarding a native code or ID token, with a new nonce.
    public init(provider: String, client: String) {
        self.init(provider: provider, client: client, nonce: LoginToken.random())
    }

    /// Creates the data for forwarding a native code or ID token.
    ///
    /// Pass the nonce of the SDK's request.
    public init(provider: String, client: String, nonce: String?) {
        self.provider = provider
        self.client = client
        self.nonce = nonce
        loginToken = LoginToken.random()
    }
}

/// The secret that proves that a device started a login.
enum LoginToken {
    /// Returns 256 random bits as base64url.
    static func random() -> String {
        var generator = SystemRandomNumberGenerator()
        let bytes = (0..<32).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
        return Data(bytes).base64URL
    }
}
