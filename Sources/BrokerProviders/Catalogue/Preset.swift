package import Broker

/// A well-known provider as data over `oidc` or `oauth2`: what a configuration entry starts from.
package struct Preset: Sendable {
    /// What a configuration writes as `kind` (or `preset`).
    package let name: String
    package let displayName: String
    /// `oidc` or `oauth2`.
    package let service: ProviderSettings.Service
    /// The issuer, where the provider has one for all; nil where the configuration has to name it.
    package var issuer: String?
    package var endpoints = EndpointSettings()
    package var wire = WireSettings()
    /// Whether clients send and demand a nonce.
    package var nonce = false
    /// Whether a client's secret goes into the body instead of HTTP Basic.
    package var secretInBody = false
    package var pkce = ClientProfile.PKCE.required
    /// What a client asks for when it names no scope.
    package var scope: [String] = []
    package var callbackParameters: [String] = []
    /// How a native SDK's code is redeemed.
    package var nativeRedirect = CodeGrant.RedirectParameter.omitted
}
