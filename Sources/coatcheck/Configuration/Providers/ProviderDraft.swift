import Broker
import BrokerProviders

/// What a provider's clients take over from it.
struct ProviderDraft: Sendable {
    let kind: ProviderKind
    let lifetimes: SessionLifetimes
    var wire: WireSettings
    var scope: [String]
    var allowedParameters: Set<String> = []
    var callbackParameters: [String] = []
    var socialProviders: [String] = []
    var isCleverOpenID = false
    /// Whether clients send a nonce; nil where the scope decides.
    var nonce: Bool?
    var pkce = ClientProfile.PKCE.required
    /// What a native code's redemption sends as redirect URI: Google's is empty, Apple's has none.
    var nativeRedirect = CodeGrant.RedirectParameter.omitted
    /// What a `private_key` signs with where the file does not say.
    var assertionAlgorithm = SignatureAlgorithm.es256
    var credentials = CredentialReader.Shared()
    /// Whether a secret goes into the body where the client does not say: Clover, Facebook and LinkedIn take no Basic.
    var secretInBody = false
}
