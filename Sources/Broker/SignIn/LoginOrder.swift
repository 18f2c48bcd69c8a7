/// An app's wishes for a login, checked against the client's configuration.
///
/// A wish of the app reaches the provider only if the configuration allows it (SEC-07, SEC-08).
struct LoginOrder: Sendable {
    let redirectURI: RedirectURI
    private(set) var scope: [String]
    let appChallenge: String?
    let socialProvider: String?
    let parameters: [(name: String, value: String)]
    let providerStarted: Bool
    /// The demand on the sign-in, and the session that the demand is for.
    private(set) var stepUp: LoginStepUp?

    /// The parameters that only the broker may set.
    private static let reserved: Set<String> = [
        "client_id", "client_secret", "redirect_uri", "response_type", "response_mode", "scope", "state", "nonce",
        "code_challenge", "code_challenge_method", "request", "request_uri", "dpop_jkt",
    ]

    /// Creates the order of a login with the client's first redirect URI and its whole scope.
    init(
        standardFor client: ClientProfile, parameters: [(name: String, value: String)] = [], providerStarted: Bool
    ) {
        // The configuration is checked at the start, so the list has at least one redirect URI. The fallback only avoids a
        // crash.
        redirectURI = client.redirectURIs.first ?? RedirectURI(unchecked: "invalid:/")
        scope = client.scope
        appChallenge = nil
        socialProvider = client.socialProviders.first
        self.parameters = parameters
        self.providerStarted = providerStarted
    }

    /// Returns the order with an additional demand on the sign-in.
    ///
    /// If a session is stepped up, the order requests the session's present scope, so that the step-up keeps it. `openid` and
    /// `offline_access` are added, because providers do not echo them.
    func demanding(_ demand: StepUpDemand, for session: LiveSession?) throws(BrokerProblem) -> LoginOrder {
        let doubled = parameters.filter { $0.name == "acr_values" || $0.name == "max_age" }
        guard doubled.isEmpty else {
            throw BrokerProblem(
                .invalidRequest,
                with: .fields(doubled.map { FieldFault(JSONPointer.make(["parameters", $0.name]), .conflict) }))
        }
        var order = self
        order.stepUp = LoginStepUp(demand: demand, session: session?.tokenDigest)
        guard let session else { return order }
        let granted = session.facts.scope
        // If a granted scope is missing from the configured ones, the provider uses other names, and it is unknown which
        // configured scopes were granted. Then request all of them.
        if !granted.isEmpty, granted.allSatisfy({ $0 == "openid" || scope.contains($0) }) {
            order.scope = scope.filter {
                granted.contains($0) || $0 == "openid" || ($0 == "offline_access" && session.row.refreshable)
            }
        }
        return order
    }

    init(_ input: StartLoginInput, kind: ProviderKind, client: ClientProfile) throws(BrokerProblem) {
        var faults: [FieldFault] = []
        let standard = LoginOrder(standardFor: client, providerStarted: false)
        if let wanted = input.redirectURI {
            let found = client.redirectURI(wanted)
            if found == nil { faults.append(FieldFault("/redirect_uri", .notAllowed)) }
            redirectURI = found ?? standard.redirectURI
        } else {
            redirectURI = standard.redirectURI
        }
        if let wanted = input.scope {
            if !wanted.allSatisfy(client.scope.contains) { faults.append(FieldFault("/scope", .notAllowed)) }
            scope = wanted
        } else {
            scope = client.scope
        }
        if let challenge = input.codeChallenge {
            if client.pkce == .unsupported {
                faults.append(FieldFault("/code_challenge", .notAllowed))
            } else if !Base64URL.isToken(challenge, length: 43...43) {
                faults.append(FieldFault("/code_challenge", .malformed))
            }
            if let method = input.codeChallengeMethod {
                if method != "S256" { faults.append(FieldFault("/code_challenge_method", .notAllowed)) }
            } else {
                faults.append(FieldFault("/code_challenge_method", .required))
            }
        } else if input.codeChallengeMethod != nil {
            faults.append(FieldFault("/code_challenge", .required))
        }
        appChallenge = input.codeChallenge
        if kind == .zephr {
            if let wanted = input.socialProvider {
                if !client.socialProviders.contains(wanted) {
                    faults.append(FieldFault("/social_provider", .notAllowed))
                }
            } else if client.socialProviders.count != 1 {
                faults.append(FieldFault("/social_provider", .required))
            }
            socialProvider = input.socialProvider ?? client.socialProviders.first
        } else {
            if input.socialProvider != nil { faults.append(FieldFault("/social_provider", .notAllowed)) }
            socialProvider = nil
        }
        for parameter in input.parameters {
            let pointer = JSONPointer.make(["parameters", parameter.name])
            if !client.allowedParameters.contains(parameter.name) || Self.reserved.contains(parameter.name) {
                faults.append(FieldFault(pointer, .notAllowed))
            } else if !parameter.value.unicodeScalars.allSatisfy({ $0.value >= 0x20 && $0.value != 0x7F }) {
                faults.append(FieldFault(pointer, .malformed))
            }
        }
        parameters = input.parameters
        for name in SignInDemands.faults(in: input.parameters) {
            faults.append(FieldFault(JSONPointer.make(["parameters", name]), .malformed))
        }
        providerStarted = false
        guard faults.isEmpty else { throw BrokerProblem(.invalidRequest, with: .fields(faults)) }
    }
}
