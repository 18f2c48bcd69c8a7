package import Broker

/// A preset: a well-known provider, described as settings of kind `oidc` or `oauth2`, which a configuration entry extends.
package struct Preset: Sendable {
    /// The preset's name in the setting `preset`.
    package let name: String
    package let displayName: String
    /// The kind of the provider: `oidc` or `oauth2`.
    package let service: ProviderSettings.Service
    /// The issuer, if the provider has one for all users; nil if the configuration has to name it.
    package var issuer: String?
    /// The `iss` in callbacks, if the vendor publishes one although its service is plain OAuth.
    ///
    /// The value is used only if the configuration keeps the preset's authorization endpoint.
    package var callbackIssuer: String?
    package var endpoints = EndpointSettings()
    package var wire = WireSettings()
    /// Whether clients send and require a nonce.
    package var nonce = false
    /// Whether a client's secret is sent in the body instead of HTTP Basic.
    package var secretInBody = false
    /// The algorithm of a `private_key`, unless the configuration names one.
    package var assertionAlgorithm = SignatureAlgorithm.es256
    package var pkce = ClientProfile.PKCE.required
    /// The scope of a client whose entry has no `scope`.
    package var scope: [String] = []
    package var callbackParameters: [String] = []
    /// The demands on a sign-in that the provider can fulfil; nil for the default of its kind.
    package var stepUp: StepUpCapability?
    /// The `redirect_uri` in the call that redeems a native SDK's code: sent, empty or omitted.
    package var nativeRedirect = CodeGrant.RedirectParameter.omitted
}
