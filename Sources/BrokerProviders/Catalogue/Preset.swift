package import Broker

/// A well-known provider as data over `oidc` or `oauth2`: what a configuration entry starts from.
package struct Preset: Sendable {
    /// The word for it in a configuration's `kind` (or `preset`).
    package let name: String
    package let displayName: String
    /// `oidc` or `oauth2`.
    package let service: ProviderSettings.Service
    /// The issuer, where the provider has one for all; nil where the configuration has to name it.
    package var issuer: String?
    /// The `iss` of callbacks, where the vendor publishes that without being an OpenID provider; it falls with the
    /// preset's authorization endpoint.
    package var callbackIssuer: String?
    package var endpoints = EndpointSettings()
    package var wire = WireSettings()
    /// Whether clients send and demand a nonce.
    package var nonce = false
    /// Whether a client's secret goes into the body instead of HTTP Basic.
    package var secretInBody = false
    /// The algorithm of a `private_key` where the file does not say.
    package var assertionAlgorithm = SignatureAlgorithm.es256
    package var pkce = ClientProfile.PKCE.required
    /// The scope of a client that names none.
    package var scope: [String] = []
    package var callbackParameters: [String] = []
    /// The way in which a native SDK's code is redeemed.
    package var nativeRedirect = CodeGrant.RedirectParameter.omitted
}
