/// One exchange to run: what is claimed, for whom, and which provider call it stands for.
struct ExchangePlan: Sendable {
    /// The call that is made at most once.
    enum Call: Sendable {
        /// Redeem a code (flows A, B and C, native codes).
        case code(CodeGrant, IdentityContext)
        /// Ask whose a Zephr session is, and take it over.
        case zephrSession(Secret)
        /// Keep a Zephr partial registration for its starter.
        case zephrPartial(stateKey: Secret, identifier: String?)
        /// Complete a registration.
        case register(RegistrationRequest)
        /// Take over tokens that the app already holds.
        case importTokens(ImportedTokens)
        /// Make a session of an id_token that has verified; nil when its exchange stood already, and was not looked at.
        case idToken(ProviderIdentity?)
    }

    var key: Digest
    /// The starter's secret; nil when the forward brought none, and then nothing can be replayed.
    var proof: Secret?
    var gate: ExchangeGate
    var provider: any ProviderClient
    var client: ClientProfile
    var call: Call
    var device: String?
    /// The device's old session, which the new one replaces.
    var presentedSession: Secret?
    /// The login token that came along, for a login that takes this one's place.
    var loginToken: Secret?
    var charge: Charge
    /// The key that the session will belong to.
    var binding: SignInKey
}
