/// `assertion`: how a client's signed proof looks, where a server wants it otherwise than RFC 7523bis has it.
package struct AssertionSettings: Sendable, Equatable {
    /// The setting `audience`.
    package enum Audience: Sendable, Equatable {
        /// `issuer`: the one value that a mix-up of endpoints cannot misuse (SEC-19).
        case issuer
        /// `token_endpoint`: servers that predate the rule.
        case tokenEndpoint
        /// `endpoint`: the address that is called, for servers that take no other (Glewlwyd, idpyoidc).
        case endpoint
        /// An https URL of the file.
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
    /// `typ`: the header's.
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
