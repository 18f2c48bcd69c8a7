import Foundation

/// A login that the app started with a library of its own (flow B), for clients with `login: app` or `both`.
public struct AppLogin: Sendable {
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
    /// Who brings it again gets the same session; made here, kept until the session is there.
    public let loginToken: String

    /// Creates what the forward of a callback needs.
    public init(provider: String, client: String, state: String, codeVerifier: String? = nil, nonce: String? = nil) {
        self.provider = provider
        self.client = client
        self.state = state
        self.codeVerifier = codeVerifier
        self.nonce = nonce
        loginToken = Self.randomToken()
    }

    private static func randomToken() -> String {
        var generator = SystemRandomNumberGenerator()
        let bytes = (0..<32).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
        return Data(bytes).base64EncodedString().replacingOccurrences(of: "+", with: "-")
            .replacingOccurrences(of: "/", with: "_").replacingOccurrences(of: "=", with: "")
    }
}
