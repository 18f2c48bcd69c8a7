/// The use cases that the HTTP layer may call.
package struct BrokerUseCases: Sendable {
    package let startLogin: StartLogin
    package let forwardCode: ForwardCode
    package let finishRegistration: FinishRegistration
    package let hostedCallback: HostedCallback
    package let resumeSession: ResumeSession
    package let endSession: EndSession
    package let listSessions: ListSessions
    package let refreshTokens: RefreshTokens
    package let fetchTargetToken: FetchTargetToken
    package let handOutToken: HandOutToken
    package let grantPass: GrantPass
    package let makeChild: MakeChild
    package let handOver: HandOver
    package let proveForBackend: ProveForBackend
    package let signInCheck: SignInCheck
    package let presenceCheck: PresenceCheck
    package let registerPresenceKey: RegisterPresenceKey
    /// Returns the nonce for the next proof (RFC 9449 section 8).
    package let proofNonce: @Sendable () -> String
    /// The origins of the broker's own addresses, for checking the addresses in proofs.
    package let proofOrigins: ProofOrigins
    package let backchannelLogout: BackchannelLogout
    package let adminSessions: AdminSessions
    package let listenToSession: ListenToSession
    /// The configured providers, in the configuration's order.
    package let profiles: [ProviderProfile]

    /// Returns the name of the old system's cookie of a client; nil if the client lacks one.
    package func legacyCookie(of provider: ProviderName?, _ client: ClientName?) -> String? {
        guard let profile = profiles.first(where: { $0.name == provider }) else { return nil }
        return (try? StartLogin.client(client, of: profile))?.moveIn?.cookie
    }

    /// Creates the use cases over one context; `publicURL` has no trailing slash.
    package init(_ context: BrokerContext, publicURL: String) {
        startLogin = StartLogin(context)
        forwardCode = ForwardCode(context)
        finishRegistration = FinishRegistration(context)
        hostedCallback = HostedCallback(context, publicURL: publicURL)
        resumeSession = ResumeSession(context: context)
        endSession = EndSession(context)
        listSessions = ListSessions(context)
        refreshTokens = RefreshTokens(context)
        fetchTargetToken = FetchTargetToken(context)
        handOutToken = HandOutToken(context, refreshTokens: refreshTokens)
        grantPass = GrantPass(context)
        makeChild = MakeChild(context)
        handOver = HandOver(context, publicURL: publicURL)
        proveForBackend = ProveForBackend(context)
        signInCheck = SignInCheck(context)
        presenceCheck = PresenceCheck(context)
        registerPresenceKey = RegisterPresenceKey(context)
        proofOrigins = context.settings.proofOrigins
        proofNonce = { ProofCheck(context: context).nonce }
        backchannelLogout = BackchannelLogout(context)
        adminSessions = AdminSessions(context)
        listenToSession = ListenToSession(context)
        profiles = context.providers.all.map(\.profile)
    }
}
