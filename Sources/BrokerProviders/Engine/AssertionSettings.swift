import Broker

/// The setting `assertion`, for servers whose client assertions differ from RFC 7523bis.
package struct AssertionSettings: Sendable, Equatable {
    /// The setting `audience`.
    package enum Audience: Sendable, Equatable {
        /// `issuer`: the only audience that an attacker cannot misuse by confusing endpoints (SEC-19).
        case issuer
        /// `token_endpoint`: for servers that are older than the rule that the audience is the issuer.
        case tokenEndpoint
        /// `endpoint`: the address of the called endpoint, for servers that accept only this address (Glewlwyd, idpyoidc).
        case endpoint
        /// An https URL from the configuration.
        case url(String)
    }

    /// The setting `key_header`.
    package enum KeyHeader: String, Sendable, CaseIterable {
        case keyID = "kid"
        /// The certificate's SHA-256 (Microsoft).
        case thumbprint = "x5t#S256"
    }

    /// The setting `audience`.
    package var audience: Audience
    /// `typ`: the value of the member `typ` in the assertion's header.
    package var type: String
    /// The setting `key_header`.
    package var keyHeader: KeyHeader
    /// The SHA-256 of the certificate in `certificate: {file}`, as base64url.
    package var thumbprint: String?

    package init(
        audience: Audience = .issuer, type: String = "client-authentication+jwt", keyHeader: KeyHeader = .keyID,
        thumbprint: String? = nil
    ) {
        self.audience = audience
        self.type = type
        self.keyHeader = keyHeader
        self.thumbprint = thumbprint
    }
}
