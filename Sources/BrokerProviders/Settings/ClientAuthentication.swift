package import Broker

/// The way in which a client proves itself to the provider (`auth`); exactly one per client (SEC-18).
package enum ClientAuthentication: Sendable {
    /// `none`: a public client; its id goes in the body.
    case none
    /// `client_secret_basic`, with `client_secret`.
    case clientSecretBasic(Secret)
    /// `client_secret_post`, with `client_secret`.
    case clientSecretPost(Secret)
    /// `blank_secret_basic`: `base64(id + ":")`, Clever's legacy iOS client. An empty secret is not an absent one.
    case blankSecretBasic
    /// `client_secret_jwt`, with `client_secret` (RFC 7523, HS256).
    case clientSecretJWT(Secret)
    /// `private_key_jwt`, with `private_key` (RFC 7523); `assertion` says how it looks.
    case privateKeyJWT(SigningKey)
    /// `apple`: a client secret made as an ES256 JWT and renewed.
    case apple(teamID: String, keyID: String, key: Secret)

    /// The method's registered name (RFC 7591 section 2).
    package var method: String {
        switch self {
        case .none: "none"
        case .clientSecretBasic, .blankSecretBasic: "client_secret_basic"
        case .clientSecretPost, .apple: "client_secret_post"
        case .clientSecretJWT: "client_secret_jwt"
        case .privateKeyJWT: "private_key_jwt"
        }
    }

    /// Returns the way among a server's `methods` for one of its endpoints: this one where it is listed, else another that
    /// the same credential can be shown in.
    func among(_ methods: [String]?) -> ClientAuthentication {
        guard let methods, !methods.isEmpty, !methods.contains(method) else { return self }
        let secret: Secret
        switch self {
        case .clientSecretBasic(let own), .clientSecretPost(let own), .clientSecretJWT(let own): secret = own
        case .none, .blankSecretBasic, .privateKeyJWT, .apple: return self
        }
        let ways: [ClientAuthentication] = [
            .clientSecretBasic(secret), .clientSecretPost(secret), .clientSecretJWT(secret),
        ]
        return ways.first { methods.contains($0.method) } ?? self
    }
}
