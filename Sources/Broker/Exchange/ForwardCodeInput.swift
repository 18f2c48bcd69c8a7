/// What `POST /v1/sessions` brings, already decoded: every member optional here, the use case decides the flow.
package struct ForwardCodeInput: Sendable {
    package var callbackURL: String?
    package var handoff: Secret?
    package var provider: ProviderName?
    package var client: ClientName?
    package var code: Secret?
    /// An id_token that a native SDK gave the app.
    package var idToken: Secret?
    package var redirectURI: String?
    package var codeVerifier: Secret?
    package var state: Secret?
    package var nonce: Secret?
    /// What the app asked for (flow B).
    package var scope: [String]?
    /// From the body, else from the login cookie.
    package var loginToken: Secret?
    /// What the user calls this device, at most 64 characters.
    package var device: String?
    /// Tokens to import (Clover's PartialOAuth, Clever's SDK 1.x).
    package var tokens: ImportedTokens?
    /// The session token that came with the request: the device's old session, which the new one replaces.
    package var presentedSession: Secret?
    package var charge = Charge.nobody
    /// The proof of the key that the session is to belong to.
    package var evidence = PresentedEvidence.none

    package init() {}
}

extension ForwardCodeInput {
    /// The one thing that a body forwards.
    enum Forwarded: Sendable {
        case callback(String)
        case handoff(Secret)
        case code(Secret)
        case idToken(Secret)
        case tokens(ImportedTokens)

        /// The member of the body that holds it.
        var pointer: String {
            switch self {
            case .callback: "/callback_url"
            case .handoff: "/handoff"
            case .code: "/code"
            case .idToken: "/id_token"
            case .tokens: "/tokens"
            }
        }
    }

    /// Returns what is forwarded; throws `invalid_request` for none, and for more than one.
    func forwarded() throws(BrokerProblem) -> Forwarded {
        let brought: [Forwarded?] = [
            callbackURL.map { .callback($0) }, handoff.map { .handoff($0) }, code.map { .code($0) },
            idToken.map { .idToken($0) }, tokens.map { .tokens($0) },
        ]
        let found = brought.compactMap(\.self)
        guard let first = found.first else {
            throw BrokerProblem(.invalidRequest, errors: [FieldFault("/callback_url", .required)])
        }
        guard found.count == 1 else {
            throw BrokerProblem(.invalidRequest, errors: found.dropFirst().map { FieldFault($0.pointer, .conflict) })
        }
        return first
    }
}

/// Tokens that an app already holds.
package struct ImportedTokens: Sendable {
    package var accessToken: Secret
    /// Nil where the provider has none (Clever), or had none when the token was issued (Clover).
    package var refreshToken: Secret?
    /// The merchant that the app says it is for; confirmed by the API or refused.
    package var merchantID: String?

    /// What stands in for a callback's parameters: the merchant, where one was named.
    var callback: [(name: String, value: String)] { merchantID.map { [("merchant_id", $0)] } ?? [] }

    package init(accessToken: Secret, refreshToken: Secret?, merchantID: String?) {
        self.accessToken = accessToken
        self.refreshToken = refreshToken
        self.merchantID = merchantID
    }
}
