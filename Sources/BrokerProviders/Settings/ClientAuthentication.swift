package import Broker

/// A client's method of authentication to the provider (`auth`); exactly one per client (SEC-18).
package enum ClientAuthentication: Sendable {
    /// `none`: a public client, whose id is in the body.
    case none
    /// `client_secret_basic`, with `client_secret`.
    case clientSecretBasic(Secret)
    /// `client_secret_post`, with `client_secret`.
    case clientSecretPost(Secret)
    /// `blank_secret_basic`: `base64(id + ":")` for Clever's legacy iOS client.
    ///
    /// The secret is empty, which differs from a missing secret.
    case blankSecretBasic
    /// `client_secret_jwt`, with `client_secret` (RFC 7523, HS256).
    case clientSecretJWT(Secret)
    /// `private_key_jwt`, with `private_key` (RFC 7523); the setting `assertion` changes details of the assertion.
    case privateKeyJWT(SigningKey)
    /// `tls_client_auth` (RFC 8705 section 2.1): the connection's certificate, which contains a name that is registered for
    /// the client.
    case tlsClientAuth
    /// `self_signed_tls_client_auth` (section 2.2): the connection's certificate, which is itself registered for the client.
    case selfSignedTLSClientAuth
    /// `apple`: a client secret that is an ES256 JWT, made for each call.
    case apple(teamID: String, keyID: String, key: Secret)

    /// The method's registered name (RFC 7591 section 2).
    package var method: String {
        switch self {
        case .none: "none"
        case .clientSecretBasic, .blankSecretBasic: "client_secret_basic"
        case .clientSecretPost, .apple: "client_secret_post"
        case .clientSecretJWT: "client_secret_jwt"
        case .privateKeyJWT: "private_key_jwt"
        case .tlsClientAuth: "tls_client_auth"
        case .selfSignedTLSClientAuth: "self_signed_tls_client_auth"
        }
    }

    /// Returns the method to use at an endpoint, from the methods that the server lists for it.
    ///
    /// The result is this method if the list has it, or else another method with the same credential.
    func among(_ methods: [String]?) -> ClientAuthentication {
        guard let methods, !methods.isEmpty, !methods.contains(method) else { return self }
        let secret: Secret
        switch self {
        case .clientSecretBasic(let own), .clientSecretPost(let own), .clientSecretJWT(let own): secret = own
        case .none, .blankSecretBasic, .privateKeyJWT, .tlsClientAuth, .selfSignedTLSClientAuth, .apple: return self
        }
        let ways: [ClientAuthentication] = [
            .clientSecretBasic(secret), .clientSecretPost(secret), .clientSecretJWT(secret),
        ]
        return ways.first { methods.contains($0.method) } ?? self
    }
}
