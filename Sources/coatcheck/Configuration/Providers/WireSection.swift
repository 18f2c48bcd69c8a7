import Broker

/// Is what the file says about how a provider is spoken to, on the provider or, where it differs, on a client.
struct WireSection: Sendable {
    enum BasicEncoding: String, Sendable, CaseIterable { case form, raw }
    enum ResponseMode: String, Sendable, CaseIterable { case query, formPost = "form_post" }
    enum PushedRequests: String, Sendable, CaseIterable { case off, optional, required }
    enum RefreshMode: String, Sendable, CaseIterable { case rotate, keep, singleUse = "single_use", none }

    var basicEncoding: BasicEncoding?
    var privateKey: PrivateKeySection?
    var apple: AppleSection?
    var authorizationParameters: [(name: String, value: String)]
    var allowedParameters: [String]?
    var responseMode: ResponseMode?
    var par: PushedRequests?
    var tokenRequest: TokenRequestSection
    var tokenResponse: TokenResponseSection
    var refresh: RefreshMode?
    var callbackParameters: [String]?

    /// The parameters that the broker alone sets (SEC-07).
    private static let reserved: Set<String> = [
        "client_id", "redirect_uri", "response_type", "state", "nonce", "code_challenge", "code_challenge_method",
        "scope", "request", "request_uri", "client_secret", "code", "code_verifier",
    ]

    init(_ section: ConfigSection) {
        basicEncoding = section.choice("basic_encoding")
        privateKey = section.optionalSection("private_key").flatMap(PrivateKeySection.init)
        apple = section.optionalSection("apple").flatMap(AppleSection.init)
        authorizationParameters = section.pairs("authorization_parameters").map { ($0.name, $0.value.text) }
        allowedParameters = section.words("allowed_parameters")
        for name in authorizationParameters.map(\.name) where Self.reserved.contains(name) {
            section.report("authorization_parameters", "cannot hold `\(name)`: the broker sets it")
        }
        for name in allowedParameters ?? [] where Self.reserved.contains(name) {
            section.report("allowed_parameters", "cannot hold `\(name)`: the broker sets it")
        }
        responseMode = section.choice("response_mode")
        par = section.choice("par")
        tokenRequest = TokenRequestSection(section.section("token_request"))
        tokenResponse = TokenResponseSection(section.section("token_response"))
        refresh = section.section("refresh").choice("mode")
        callbackParameters = section.words("callback_parameters")
    }

    /// Is nothing said, for kinds that have none of these keys.
    static let none = WireSection(
        authorizationParameters: [], tokenRequest: TokenRequestSection(), tokenResponse: TokenResponseSection())

    private init(
        authorizationParameters: [(name: String, value: String)], tokenRequest: TokenRequestSection,
        tokenResponse: TokenResponseSection
    ) {
        self.authorizationParameters = authorizationParameters
        self.tokenRequest = tokenRequest
        self.tokenResponse = tokenResponse
    }

    /// Returns these settings with what they leave open taken from `base`.
    func over(_ base: WireSection) -> WireSection {
        var merged = self
        merged.basicEncoding = basicEncoding ?? base.basicEncoding
        merged.privateKey = privateKey ?? base.privateKey
        merged.apple = apple ?? base.apple
        merged.authorizationParameters = authorizationParameters + base.authorizationParameters.filter { inherited in
            !authorizationParameters.contains { $0.name == inherited.name }
        }
        merged.allowedParameters = allowedParameters ?? base.allowedParameters
        merged.responseMode = responseMode ?? base.responseMode
        merged.par = par ?? base.par
        merged.tokenRequest = tokenRequest.over(base.tokenRequest)
        merged.tokenResponse = tokenResponse.over(base.tokenResponse)
        merged.refresh = refresh ?? base.refresh
        merged.callbackParameters = callbackParameters ?? base.callbackParameters
        return merged
    }
}
