package import Broker

/// How a client proves itself to the provider (`auth`); exactly one way per client (SEC-18).
package enum ClientAuthentication: Sendable {
    /// `none`: a public client; its id goes in the body.
    case none
    /// `client_secret_basic`, with `client_secret`.
    case clientSecretBasic(Secret)
    /// `client_secret_post`, with `client_secret`.
    case clientSecretPost(Secret)
    /// `blank_secret_basic`: `base64(id + ":")`, Clever's legacy iOS client. An empty secret is not an absent one.
    case blankSecretBasic
    /// `private_key_jwt`, with `private_key` (RFC 7523; the audience is the issuer, SEC-19).
    case privateKeyJWT(SigningKey)
    /// `apple`: a client secret made as an ES256 JWT and renewed.
    case apple(teamID: String, keyID: String, key: Secret)
}
